"""What µGraphs mean: one walker, generic over the arithmetic."""
