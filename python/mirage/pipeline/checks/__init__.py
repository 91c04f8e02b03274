"""Compiled kernels are run before the program is returned."""
