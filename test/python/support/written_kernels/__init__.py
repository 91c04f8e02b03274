"""Kernels written by hand, as text of thread ops or as launches with a schedule."""
