"""Checks of what a caller passes: types and shapes, memory that overlaps, indices."""
