"""The ops of µGraphs, by kind and by level."""
