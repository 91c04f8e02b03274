"""Two programs with inputs that are easier to compare. Equality for any contents of these inputs
implies equality of the original programs."""

from __future__ import annotations

import math
from collections.abc import Iterator

from mirage.semantics.ugraph import KernelGraph
from mirage.verify.compression.index_relations import Irregular
from mirage.verify.evidence.proofs.free_roles import Roles, with_free_roles
from mirage.verify.evidence.proofs.free_slices import with_free_slices
from mirage.verify.evidence.proofs.free_views import with_free_views
from mirage.verify.evidence.proofs.small_model import small_pair


def freed(first: KernelGraph, second: KernelGraph) -> Iterator[tuple[KernelGraph, KernelGraph]]:
    """Yield pairs of programs whose equality implies that of the given pair: first with fewer
    constraints on the inputs' shapes, then the pair itself."""
    sliced = with_free_slices(first, second)
    pair = sliced or (first, second)
    viewed = with_free_views(*pair)
    if viewed is not None:
        yield viewed
    if sliced is not None:
        yield sliced
    yield first, second


def in_roles(first: KernelGraph, second: KernelGraph) -> Roles | None:
    """Return two programs with an input for each role, in the shapes that take the least work."""
    shaped = next(freed(first, second))
    found = [with_free_roles(*pair) for pair in dict.fromkeys((shaped, (first, second)))]
    apart = [roles for roles in found if roles is not None]
    return min(apart, key=_work) if len(apart) > 1 else next(iter(apart), None)


def _work(roles: Roles) -> float:
    """Return the work of a comparison by small programs; infinity if there are none."""
    try:
        return small_pair(roles.first, roles.second).work
    except Irregular:
        return math.inf
