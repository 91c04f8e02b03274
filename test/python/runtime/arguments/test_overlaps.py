"""Arguments of a model: memory that is written to belongs to only one of them."""

from __future__ import annotations

import random

from mirage.runtime.arguments.overlaps import written_apart


def by_pairs(starts: list[int], sizes: list[int], written: set[int]) -> bool:
    for i in written:
        for j in range(len(starts)):
            if i != j and starts[i] < starts[j] + sizes[j] and starts[j] < starts[i] + sizes[i]:
                return not (sizes[i] and sizes[j])
    return True


def test_any_overlap_with_what_is_written_is_found() -> None:
    random.seed(0)
    counts = {True: 0, False: 0}
    for _ in range(4000):
        count = random.randint(1, 6)
        starts = [random.randint(0, 30) for _ in range(count)]
        sizes = [random.randint(1, 6) for _ in range(count)]
        written = {i for i in range(count) if random.random() < 0.4}
        want = by_pairs(starts, sizes, written)
        assert written_apart(starts, sizes, written) == want
        counts[want] += 1
    assert min(counts.values()) > 500


def test_empty_memory_overlaps_nothing() -> None:
    assert written_apart([0, 0, 4], [8, 0, 0], {0, 1})
    assert not written_apart([0, 0], [8, 1], {1})


def test_memory_that_is_only_read_may_be_shared() -> None:
    assert written_apart([0, 0, 4, 16], [8, 8, 8, 4], {3})
    assert not written_apart([0, 0, 4, 10], [8, 8, 8, 4], {3})
