"""Rows of ops that compute each element of a result from the same element of their operands."""
