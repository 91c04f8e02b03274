"""Two programs whose inputs name places, or are a number with which the reference leaves a place
out, in the form that :mod:`mirage.verify.normal_form.left_out` writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.normal_form.left_out import (
    numbers_left_out,
    where_counted,
    with_choices,
)
from mirage.verify.normal_form.read_by_rows import Places, named_places


@dataclass(frozen=True)
class LeftOut:
    """Both ``programs``, with truth values as further inputs. The other inputs in ``places`` name
    places; where a truth value is false, they stand for the ``numbers`` that leave a place out."""

    programs: tuple[KernelGraph, KernelGraph]
    numbers: Mapping[int, int]
    places: Places

    @property
    def counts(self) -> Mapping[int, int]:
        """The number of places that each input may name."""
        return {**self.places.infinite, **self.places.counts}


def labels_left_out(
    first: KernelGraph, second: KernelGraph, contents: Mapping[int, Array]
) -> LeftOut | None:
    """Return two programs of primitive ops in this form; None if the first one leaves nothing
    out."""
    numbers = {i: n for i, n in numbers_left_out(first).items() if i not in contents}
    named = named_places(where_counted(first, numbers), contents) if numbers else Places({})
    counts = {**named.infinite, **named.counts}
    numbers = {i: n for i, n in numbers.items() if i in counts and not 0 <= n < counts[i]}
    pair = with_choices(first, numbers), with_choices(second, numbers)
    if not numbers or pair[0] is None or pair[1] is None:
        return None
    there = ({i: n for i, n in each.items() if i in numbers} for each in (counts, named.infinite))
    every, infinite = there
    places = Places({i: n for i, n in every.items() if i not in infinite}, infinite)
    return LeftOut((pair[0], pair[1]), numbers, places)
