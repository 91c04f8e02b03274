"""An evaluator of µGraphs that shares nothing with the project's own, and its verdicts on
candidates."""
