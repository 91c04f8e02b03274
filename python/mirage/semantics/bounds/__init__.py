"""Bounds on the elements of values, and the loop steps that contribute nothing."""
