"""PTX as text and as data."""
