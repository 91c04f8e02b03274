"""The candidates that the search finds for the layers of the gallery. This needs the importer of
PyTorch programs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from gallery import MissingPackageError, case
from mirage import from_torch
from mirage.cost import DEFAULT_CHIP, TARGETS
from mirage.pipeline.search import search_part, side_by_side
from mirage.pipeline.verify import claims_of
from mirage.search import SearchLimits
from mirage.semantics.ugraph import KernelGraph, Launch
from mirage.transforms import stabilize
from mirage.transforms.partition.partition import Part, partition
from mirage.verify.pieces.kernel_by_kernel import Hint


@dataclass(frozen=True)
class Found:
    """A candidate of a part of a layer."""

    part: int
    kernels: int
    reference: KernelGraph
    candidate: KernelGraph
    hint: Hint


def candidates_of(name: str, seconds: float) -> Iterator[Found]:
    """Yield the candidates of each part of a layer at its small width, best first."""
    try:
        layer = case(name).build("small")
    except MissingPackageError as error:
        print(error, file=sys.stderr)
        return
    graph = from_torch(layer.module, *layer.inputs).graph
    for number, part in enumerate(partition(graph)):
        if not isinstance(part, Part):
            continue
        target = TARGETS[DEFAULT_CHIP]
        _, result = search_part(part.graph, target, SearchLimits(budget=seconds, candidates=6))
        for claim in claims_of(side_by_side(part.graph, result)):
            if claim.hint is not None:
                kernels = sum(isinstance(x, Launch) for x in claim.candidate.ops)
                candidate = stabilize(claim.candidate).graph
                yield Found(number, kernels, part.graph, candidate, claim.hint)
