"""Whole models: manifests, states, arguments, and calls."""
