"""Rounding errors, measured in situations that models have."""
