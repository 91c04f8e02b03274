"""Hand-written µGraphs: their PTX, executed with all checks, computes their meaning."""

from __future__ import annotations

import pytest
from example_programs import graphs
from example_programs.graphs import Pair
from lowering import check_graph, with_schedule
from mirage.semantics.scalar import DType
from thorough import some_of

PAIRS = graphs.small_pairs()
CASES = [(p, c) for p, pair in PAIRS.items() for c in pair.candidates]


@pytest.mark.parametrize("chip", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(("pair", "candidate"), some_of(CASES, 6))
def test_small_graphs(pair: str, candidate: str, chip: str) -> None:
    check_graph(PAIRS[pair].candidates[candidate], PAIRS[pair].reference, chip=chip)


@pytest.mark.parametrize(
    ("pair", "warps", "stages"),
    some_of(
        [
            *(("rms_linear", 1, 1), ("rms_linear", 2, 2), ("rms_linear", 8, 4)),
            *(("attention", 1, 2), ("attention", 2, 4), ("attention", 8, 1)),
            *(("softmax", 1, 4), ("softmax", 2, 1), ("softmax", 8, 2)),
        ],
        every=3,
    ),
)
def test_schedules(pair: str, warps: int, stages: int) -> None:
    """Each two of the three together."""
    for graph in PAIRS[pair].candidates.values():
        check_graph(with_schedule(graph, warps, stages), PAIRS[pair].reference)


def check_pair(pair: Pair) -> None:
    for graph in pair.candidates.values():
        check_graph(graph, pair.reference)


@pytest.mark.parametrize("m", some_of([1, 2, 7, 8, 9, 17, 40], every=3))
@pytest.mark.parametrize(("k", "n", "blocks", "steps"), [(128, 96, 2, 2), (97, 37, 3, 4)])
def test_rows(m: int, k: int, n: int, blocks: int, steps: int) -> None:
    check_pair(graphs.rms_linear(m, k, n, blocks=blocks, steps=steps))


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.F32])
def test_element_types(dtype: DType) -> None:
    check_pair(graphs.rms_linear(12, 64, 40, blocks=2, steps=2, dtype=dtype))
    check_pair(graphs.swiglu(5, 48, 24, blocks=2, steps=3, dtype=dtype))
    check_pair(graphs.lora(9, 40, 33, 5, blocks=2, steps=2, dtype=dtype))


@pytest.mark.parametrize(
    ("s", "t", "d", "row_blocks"),
    some_of([(16, 64, 16, 1), (20, 101, 24, 2), (1, 37, 8, 1), (130, 70, 64, 2)], every=2),
)
def test_attention(s: int, t: int, d: int, row_blocks: int) -> None:
    check_pair(graphs.attention(2, s, t, d, splits=2, steps=2, row_blocks=row_blocks))


@pytest.mark.parametrize(("rows", "keys"), some_of([(128, 128), (64, 256)], every=2))
def test_tall_attention(rows: int, keys: int) -> None:
    """Prefill's tiles: the scores alone fill all registers of the scheduled warps."""
    pair = graphs.attention(1, rows, 2 * keys, 64, splits=1, steps=2, row_blocks=1)
    for graph in pair.candidates.values():
        check_graph(with_schedule(graph, warps=4, stages=2), pair.reference)


@pytest.mark.parametrize("n", some_of([1, 2, 31, 257, 4099], every=2))
def test_long_rows(n: int) -> None:
    check_pair(graphs.softmax(3, n, row_blocks=2, steps=min(n, 3)))
    check_pair(graphs.layer_norm(3, n, row_blocks=2, steps=min(n, 2)))
