"""Candidates cut into pieces, kernel by kernel, and what is known about pieces."""
