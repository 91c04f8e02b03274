"""Artifacts written by hand, and a driver that launches them without a GPU."""
