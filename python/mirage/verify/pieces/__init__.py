"""Candidates cut into pieces, kernel by kernel, and the results for pieces."""
