"""An evaluator of µGraphs that shares no code with the project's own, and its verdicts on
candidates."""
