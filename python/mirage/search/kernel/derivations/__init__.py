"""The ways to compute a value, by moves of one op each, and the cheapest of them."""
