"""Compiled kernels, run before they are handed out."""
