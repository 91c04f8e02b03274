"""The evaluation of µGraphs: one evaluator, generic over the arithmetic."""
