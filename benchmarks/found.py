"""What the search finds for the built-in workloads, kept in a folder if one is given."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from pathlib import Path

from mirage.cost import TARGETS
from mirage.search import superoptimize
from mirage.semantics.ugraph import KernelGraph
from mirage.transforms import stabilize
from mirage.transforms.partition.partition import Part, partition
from mirage.workloads import get


def found_candidates(
    workloads: Iterable[str], folder: Path | None
) -> Iterator[tuple[str, KernelGraph, list[KernelGraph]]]:
    """Reference and stabilised candidates of each part of the workloads, best first; those without
    a candidate are left out.

    With a ``folder`` they are searched once and kept there.
    """
    for workload in workloads:
        for number, part in enumerate(partition(get(workload).program().graph)):
            if not isinstance(part, Part):
                continue
            file = None if folder is None else folder / f"{workload}.{number}.pkl"
            if file is not None and file.exists():
                reference, candidates = pickle.loads(file.read_bytes())
            else:
                found = superoptimize(part.graph, TARGETS["sm_90a"]).candidates
                reference, candidates = part.graph, [stabilize(c.graph).graph for c in found]
                if file is not None:
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(pickle.dumps((reference, candidates)))
            if candidates:
                yield f"{workload}/{number}", reference, candidates
