"""Launches of compiled kernels: the driver, parameter lists, programs and captured graphs."""
