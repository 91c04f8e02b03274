"""Conversion of a captured program from the torch dialect to a kernel graph."""
