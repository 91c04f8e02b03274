"""Kernels in Triton that are tuned on the machine at hand: the configurations, and the choice among
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import Any

import timing
import torch
from triton.compiler.errors import CompilationError
from triton.runtime.errors import OutOfResources

Tensor = torch.Tensor
Config = dict[str, int]

LOG2E = 1.4426950408889634
TRIED = 60
"""The number of configurations that are tried for one program: those whose number of blocks suits
the machine best."""
FEW = 16
"""The same for kernels whose configurations are in the order of what is likely to be fast."""
ROUNDS = 5
"""How often a configuration is timed."""
BLOCKS = (132, 264, 528)
"""Numbers of blocks that fill the GPU once, twice, four times."""


@dataclass
class Tuned:
    """A kernel and its configurations, the likely ones first; ``launch`` raises an error if one
    cannot run (because of too much shared memory, for example)."""

    configs: Callable[[Sequence[Tensor]], Iterator[Config]]
    launch: Callable[[Sequence[Tensor], Config], Any]
    best: Config | None = field(default=None)
    tried: int = TRIED

    def __call__(self, *inputs: Tensor) -> Any:
        if self.best is None:
            self.best = self.tune(inputs)
        return self.launch(inputs, self.best)

    def tune(self, inputs: Sequence[Tensor]) -> Config:
        """Return the fastest of the likely ones, each timed like programs: by a graph, with cold
        L2, so that the host's time for a launch does not count."""
        size = sum(x.numel() * x.element_size() for x in inputs)
        copies = timing.copies_needed(size)
        sets = [inputs, *(tuple(x.clone() for x in inputs) for _ in range(copies - 1))]
        order = [i % copies for i in range(timing.launches_per_graph(copies))]
        times: list[tuple[float, int, Config]] = []
        for config in self.configs(inputs):
            if len(times) == self.tried:
                break
            try:
                graph = timing.capture(lambda i, c=config: self.launch(sets[i], c), order)
            except (OutOfResources, CompilationError):
                continue
            taken = timing.time_graphs({"": graph}, len(order), ROUNDS)[""]
            times.append((taken.median, len(times), config))
        return min(times)[2]


def fitting(blocks: Callable[[Config], int], configs: Iterator[Config]) -> Iterator[Config]:
    """Return configurations in the order of the distance of their number of blocks from one that
    fills the GPU, with equal distances in random order."""

    def distance(config: Config) -> float:
        n = blocks(config)
        return min(max(n / full, full / n) for full in BLOCKS)

    mixed = list(configs)
    Random(0).shuffle(mixed)
    yield from sorted(mixed, key=lambda config: round(distance(config), 1))


def grid(**choices: Sequence[int]) -> Iterator[Config]:
    for values in product(*choices.values()):
        yield dict(zip(choices, values, strict=True))


def how(config: Config) -> dict[str, int]:
    """Return a configuration as arguments of a launch."""
    return {("num_" + k if k in ("warps", "stages") else k): v for k, v in config.items()}
