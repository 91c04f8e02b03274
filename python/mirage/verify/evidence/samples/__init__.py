"""Inputs at the real sizes, and what programs make of them in float64 and in finite fields."""
