"""Readings of the masks of two programs, tried if nothing else shows that these are equal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.normal_form.common_divisors import CANCELLED, without_common_divisors
from mirage.verify.pair.filled_rows import FILLED, without_filled_rows
from mirage.verify.pair.least_masks import (
    ALIKE,
    READ,
    stays_defined,
    with_one_least_number,
    without_least_masks,
)
from mirage.verify.pair.zero_rows import ZEROS, with_zero_rows


def readings_of_masks(
    reference: KernelGraph, candidate: KernelGraph, contents: Mapping[int, Array], work: float
) -> Iterator[tuple[KernelGraph, KernelGraph, str]]:
    """Yield both programs in readings of their masks. A reading of the candidate may give another
    result only where the reference gives no number, and a reading of the reference nowhere."""
    if (cancelled := without_common_divisors(candidate)) is not None:
        yield reference, cancelled, CANCELLED
        first = without_common_divisors(reference)
        if first is not None:
            yield first, cancelled, CANCELLED
    zeros = [with_zero_rows(g) for g in (reference, candidate)]
    if any(g is not None for g in zeros):
        yield zeros[0] or reference, zeros[1] or candidate, ZEROS
    if (filled := without_filled_rows(candidate)) is not None:
        yield reference, filled, FILLED
    first, second = (without_least_masks(g, contents) for g in (reference, candidate))
    if second is not None:
        yield reference, second, READ
    if first is not None and stays_defined(first, reference, contents, work):
        yield first, candidate, READ
        if second is not None:
            yield first, second, READ
            return
    first, second = map(with_one_least_number, (reference, candidate))
    if first is not None and second is not None:
        yield first, second, ALIKE


def one_has_least_masks(
    reference: KernelGraph, candidate: KernelGraph, contents: Mapping[int, Array]
) -> bool:
    """Return whether only one of the programs has masks that add a large negative number: then they
    can only be equal in a reading."""
    first, second = (without_least_masks(g, contents) for g in (reference, candidate))
    return (first is None) != (second is None)
