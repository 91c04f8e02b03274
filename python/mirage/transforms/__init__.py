"""Rewrites of µGraphs that come after the search."""

from mirage.transforms.online_max.stabilize import Exponential, Stabilized, stabilize

__all__ = ["Exponential", "Stabilized", "stabilize"]
