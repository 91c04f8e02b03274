"""The analytic cost of kernels, and the limits of the code generator."""

from mirage.cost.compilable import CheckError, check_launch
from mirage.cost.cost_report import CostReport
from mirage.cost.features import Resources, features_of
from mirage.cost.kernel_features import KernelFeatures
from mirage.cost.kernel_time import estimate
from mirage.cost.target import (
    A100,
    DEFAULT_CHIP,
    H200,
    TARGETS,
    Target,
    UnknownTargetError,
    target_for,
    target_of_device,
)

__all__ = [
    "A100",
    "DEFAULT_CHIP",
    "H200",
    "TARGETS",
    "CheckError",
    "CostReport",
    "KernelFeatures",
    "Resources",
    "Target",
    "UnknownTargetError",
    "check_launch",
    "estimate",
    "features_of",
    "target_for",
    "target_of_device",
]
