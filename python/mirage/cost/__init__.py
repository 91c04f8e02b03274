"""Analytic cost of kernels, and the limits of what the code generator takes."""

from mirage.cost.features import Resources, features_of
from mirage.cost.limits import CheckError, check_launch
from mirage.cost.model import CostReport, KernelFeatures, estimate
from mirage.cost.target import A100, H200, TARGETS, Target

__all__ = [
    "A100",
    "H200",
    "TARGETS",
    "CheckError",
    "CostReport",
    "KernelFeatures",
    "Resources",
    "Target",
    "check_launch",
    "estimate",
    "features_of",
]
