"""Rewrites of µGraphs that come after the search."""

from mirage.transforms.stabilize import Exponential, Stabilized, stabilize

__all__ = ["Exponential", "Stabilized", "stabilize"]
