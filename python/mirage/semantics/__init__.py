"""The meaning of programs: scalar functions, ops, µGraphs as data, and evaluation in any
arithmetic."""
