"""The candidates that the search finds for the built-in workloads, kept in a folder if one is
given.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from pathlib import Path

from mirage.cost import DEFAULT_CHIP, TARGETS
from mirage.pipeline.search import search_part, side_by_side
from mirage.pipeline.verify import claims_of
from mirage.semantics.ugraph import KernelGraph
from mirage.transforms import stabilize
from mirage.transforms.partition.partition import Part, partition
from mirage.verify.candidates.together import Claim
from mirage.workloads import get


def found_candidates(
    workloads: Iterable[str], folder: Path | None
) -> Iterator[tuple[str, KernelGraph, list[KernelGraph]]]:
    """Yield the reference and stabilised candidates of each part of the workloads, best first;
    parts without a candidate are left out. With a ``folder`` they are searched once and kept there.
    """
    for name, reference, claims in found_claims(workloads, folder):
        yield name, reference, [c.candidate for c in claims]


def found_claims(
    workloads: Iterable[str], folder: Path | None
) -> Iterator[tuple[str, KernelGraph, list[Claim]]]:
    """Return the candidates with the values that the search states for their tensors."""
    for workload in workloads:
        for number, part in enumerate(partition(get(workload).program().graph)):
            if not isinstance(part, Part):
                continue
            file = None if folder is None else folder / f"{workload}.{number}.claims"
            if file is not None and file.exists():
                reference, claims = pickle.loads(file.read_bytes())
            else:
                reference, claims = part.graph, _searched(part.graph)
                if file is not None:
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(pickle.dumps((reference, claims)))
            if claims:
                yield f"{workload}/{number}", reference, claims


def _searched(graph: KernelGraph) -> list[Claim]:
    _, result = search_part(graph, TARGETS[DEFAULT_CHIP])
    found = claims_of(side_by_side(graph, result))
    return [Claim(stabilize(c.candidate).graph, c.hint) for c in found]
