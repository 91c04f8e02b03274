"""A program cut into parts that are searched and calls that stay with the framework."""
