"""Functions, constants and comparisons that are written in many ways, in one form."""
