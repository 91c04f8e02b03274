"""What programs mean: scalar functions, ops, µGraphs as data, evaluation in any arithmetic."""
