"""Inputs at the real sizes, and the programs' results for them in float64 and in finite fields."""
