"""Rows of ops whose results combine or count the elements along a dimension, in a window, or of
the same index."""
