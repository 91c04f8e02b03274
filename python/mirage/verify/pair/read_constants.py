"""Two programs whose constants are read as numbers that compile to the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from mirage.semantics.decompose import decompose
from mirage.semantics.numbers import Number, nearest
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.normal_form.constants import read_alike
from mirage.verify.normal_form.simple_constants import OfSimple
from mirage.verify.verdict import Evidence

Read = tuple[KernelGraph, KernelGraph, Mapping[Number, Number | OfSimple]]
"""Two programs, and the constants that were read as other numbers."""


@lru_cache(maxsize=4)  # each way to compare two programs reads them again
def constants_read(first: KernelGraph, second: KernelGraph) -> Read:
    """Return both programs with constants that compile to the same numbers."""
    # softmaxes keep their maxima: the reference's rounding errors are those that are allowed
    one, other, read = read_alike(*(decompose(g, stable=True) for g in (first, second)))
    return (one, other, read) if read else (first, second, read)


def notes_on_constants(constants: Mapping[Number, Number | OfSimple]) -> Iterator[Evidence]:
    """Yield evidence that says how constants were read, if any were."""
    if constants:
        pairs = (f"{nearest(a)!r} as {b}" for a, b in sorted(constants.items(), key=lambda c: c[0]))
        yield Evidence("constants", True, f"read what compiles to the same: {', '.join(pairs)}")
