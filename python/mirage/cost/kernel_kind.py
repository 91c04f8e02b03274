"""The kind of a kernel, which determines the terms of its time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mirage.cost.kernel_features import KernelFeatures, Num
from mirage.cost.uniform import somewhere, uniform


@dataclass(frozen=True)
class Kind:
    """Conditions, each of which holds for all choices of sizes, for none, or for some of them."""

    groups: Num
    """Whether warpgroups multiply."""
    multiplies: Num
    streams: Num
    """Whether blocks load all of their data at once and process it in any order: when one block
    ends, another one loads."""
    meets: Num
    """Whether groups share rows and exchange values at each step: none can work while another
    multiplies."""
    rings: Num
    """Whether groups have a ring of slots that only products read."""


def kind_of(f: KernelFeatures) -> Kind:
    """Return the kind of a kernel."""
    groups, multiplies = uniform(f.warpgroups), uniform(f.multiplies)
    streams = uniform((np.asarray(f.steps) <= 1) & ~multiplies)
    meets = rings = groups
    if somewhere(groups):
        meets = groups & (np.asarray(f.exchanges_step) > 0)
        rings = groups & (np.asarray(f.sfu_step) == 0) & (np.asarray(f.stages) > 1)
    return Kind(groups, multiplies, streams, meets, rings)
