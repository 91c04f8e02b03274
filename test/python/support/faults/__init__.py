"""Faults in programs, in µGraphs and in PTX, and changes that are not faults."""
