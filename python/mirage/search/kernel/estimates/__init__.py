"""Predicted times of derivations, for many sizes at once, and lower bounds."""
