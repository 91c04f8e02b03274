"""Programs and µGraphs that tests of several packages share."""
