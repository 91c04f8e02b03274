"""Arithmetics in place of the reals: prime fields, formal exponentials, symbols."""
