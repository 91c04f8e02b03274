"""Programs that look up and store by index, or read a length at run time, and their required
results for any index: PyTorch's result or, if PyTorch raises an error, the one that
docs/frontend.md states.

A read with an index outside of its dimension gives NaN (or minus infinity, if the program computes
the tensor), and a write with such an index is dropped. Sizes are primes, so that the elements
beyond the end of a line are not those of the next tile.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

Tensor = torch.Tensor
Program = Callable[..., Tensor]
ROWS = 32
"""The number of index inputs of one run: each row of an index tensor is one."""
SIZE, WIDTH, EACH = 37, 24, 3
KINDS = ("valid", "edge", "negative", "beyond", "huge", "mixed")
HUGE = (2**31 - 1, -(2**31), 2**31, 2**32, 2**32 + 1, 2**40, 2**62, 2**63 - 1, -(2**63), 2**24 + 1)


@dataclass(frozen=True)
class Subject:
    """``program(*data, *indices)``. ``lengths`` may be any numbers; other indices lie in
    ``[low, size)``. ``expected(program, data, indices, outside)`` gets indices that are moved
    inside, and which of them were outside."""

    program: Program
    data: tuple[tuple[int, ...], ...]
    expected: Callable[[Program, Sequence[Tensor], Sequence[Tensor], Sequence[Tensor]], Tensor]
    shapes: tuple[tuple[int, ...], ...] = ((ROWS, EACH),)
    sizes: tuple[int, ...] = (SIZE,)
    from_the_end: bool = False
    lengths: tuple[int, ...] = ()
    """Which of the index tensors are lengths, or wrap around: any number is valid."""
    dtype: torch.dtype = torch.int64
    half: bool = False
    tolerance: float = 0.0


def draw(
    subject: Subject, number: int, rng: random.Random, counts: Counter[str], inside: bool
) -> Tensor:
    """Return index tensor ``number``: the numbers of a row are all of one kind."""
    shape, size = subject.shapes[number], subject.sizes[number]
    low = -size if subject.from_the_end and number not in subject.lengths else 0
    rows: list[list[int]] = []
    for _ in range(ROWS):
        kind = rng.choice(KINDS[:2] if inside else KINDS)
        counts[kind] += 1
        rows.append([_number(kind, low, size, rng) for _ in range(math.prod(shape) // ROWS)])
    limits = torch.iinfo(subject.dtype)
    held = [[max(limits.min, min(limits.max, n)) for n in row] for row in rows]
    return torch.tensor(held, dtype=subject.dtype).reshape(shape)


def _number(kind: str, low: int, size: int, rng: random.Random) -> int:
    if kind == "mixed":
        kind = rng.choice((*KINDS[:-1], "valid", "valid", "valid", "valid"))
    if kind == "edge":
        return rng.choice([low, size - 1, 0])
    if kind == "negative":
        return rng.choice([-1, -size, -size - 1, -rng.randrange(1, 4 * size)])
    if kind == "beyond":
        return rng.choice([size, size + 1, size + rng.randrange(4 * size)])
    return rng.choice(HUGE) if kind == "huge" else rng.randrange(low, size)


def outside(subject: Subject, number: int, index: Tensor) -> Tensor:
    """Return where an index is outside of its dimension; lengths may be anything."""
    if number in subject.lengths:
        return torch.zeros_like(index, dtype=torch.bool)
    size = subject.sizes[number]
    low = -size if subject.from_the_end else 0
    return (index < low) | (index >= size)


def nothing_read(
    program: Program, data: Sequence[Tensor], indices: Sequence[Tensor], outside: Sequence[Tensor]
) -> Tensor:
    """Give NaN where one of the indices is outside."""
    y = program(*data, *indices)
    bad = outside[0]
    for more in outside[1:]:
        bad = bad | more
    return torch.where(bad.reshape(*bad.shape, *(1 for _ in y.shape[bad.dim() :])), torch.nan, y)


def columns_nothing(
    program: Program, data: Sequence[Tensor], indices: Sequence[Tensor], outside: Sequence[Tensor]
) -> Tensor:
    return torch.where(outside[0], torch.nan, program(*data, *indices))


def as_pytorch(
    program: Program, data: Sequence[Tensor], indices: Sequence[Tensor], outside: Sequence[Tensor]
) -> Tensor:
    return program(*data, *indices)


def value_outside(value: float) -> Callable[..., Tensor]:
    def expected(program: Program, data: Any, indices: Any, outside: Any) -> Tensor:
        return torch.where(outside[0], value, program(*data, *indices))

    return expected


def nowhere(dim: int, *, grown: Sequence[int]) -> Callable[..., Tensor]:
    """Store elements with indices outside in an additional place, which is cut off again."""

    def expected(program: Program, data: Any, indices: Any, outside: Any) -> Tensor:
        size = data[0].shape[dim]
        data = [
            torch.cat([x, torch.zeros_like(x.narrow(dim, 0, 1))], dim) if i in grown else x
            for i, x in enumerate(data)
        ]
        index = torch.where(outside[0], size, indices[0])
        return program(*data, index).narrow(dim, 0, size)

    return expected


def from_end_nowhere(*, grown: Sequence[int]) -> Callable[..., Tensor]:
    """Store rows with indices outside in an additional place; indices may count from the end."""

    def expected(program: Program, data: Any, indices: Any, outside: Any) -> Tensor:
        size = data[0].shape[0]
        index = torch.where(indices[0] < 0, indices[0] + size, indices[0])
        return nowhere(0, grown=grown)(program, data, [index], outside)

    return expected


def bag_nothing(program: Program, data: Any, indices: Any, outside: Any) -> Tensor:
    """Give NaN where an index of a bag is outside."""
    return torch.where(outside[0].any(-1, keepdim=True), torch.nan, program(*data, *indices))


def classes(program: Program, data: Any, indices: Any, outside: Any) -> Tensor:
    y = program(*data, *indices)
    return torch.where(outside[0][..., None], torch.zeros_like(y), y)


def norm(x: Tensor) -> Tensor:
    return F.rms_norm(x, (WIDTH,))


def by_length(x: Tensor, lengths: Tensor) -> Tensor:
    return torch.where(torch.arange(x.shape[-1]) < lengths[:, None], x, 0.0).sum(-1)


def ragged(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor) -> Tensor:
    mask = torch.arange(k.shape[-2]) < lengths.view(-1, 1, 1, 1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def paged(pool: Tensor, pages: Tensor, lengths: Tensor) -> Tensor:
    """Sum the keys of pages over the positions below each length."""
    keys = pool[pages].flatten(1, 2)
    seen = torch.arange(keys.shape[1]) < lengths[:, None]
    return torch.where(seen[..., None], keys, 0.0).sum(1)


def paged_nothing(program: Program, data: Any, indices: Any, outside: Any) -> Tensor:
    """Compute ``paged`` with NaN for sequences that use elements of a page that does not exist."""
    pages, lengths = indices
    first = torch.arange(pages.shape[1]) * data[0].shape[1]
    bad = (outside[0] & (first < lengths[:, None])).any(-1, keepdim=True)
    return torch.where(bad, torch.nan, program(*data, *indices))


def best(table: Tensor, scores: Tensor, limit: Tensor) -> Tensor:
    """Return the rows of the best elements up to a limit."""
    seen = torch.arange(scores.shape[1]) < limit[:, None]
    return norm(table[torch.where(seen, scores, scores - 100).topk(2, -1).indices]).sum(1)


def windowed(q: Tensor, k: Tensor, v: Tensor, position: Tensor) -> Tensor:
    """Return the last 20 keys up to a position, which wraps around like integers."""
    i, last = torch.arange(k.shape[-2]), position[:, None]
    mask = (i <= last) & (i > last - 20)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])


def paged_attention(
    q: Tensor, pool: Tensor, values: Tensor, rows: Tensor, lengths: Tensor
) -> Tensor:
    """Attention over the rows of a pool that belong to each sequence, below its length."""
    keys, values = (x[rows].transpose(1, 2) for x in (pool, values))
    seen = torch.arange(rows.shape[1]) < lengths.view(-1, 1, 1, 1)
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=seen)


def experts_nothing(program: Program, data: Any, indices: Any, outside: Any) -> Tensor:
    """Give NaN for tokens of an expert that does not exist."""
    y = program(*data, *indices)
    return torch.where(outside[0].any(-1).reshape(-1, *(1 for _ in y.shape[1:])), torch.nan, y)


def rows_nothing(program: Program, data: Any, indices: Any, outside: Any) -> Tensor:
    """Give NaN for sequences with a row, below their length, that does not exist."""
    seen = torch.arange(indices[0].shape[1]) < indices[1][:, None]
    return experts_nothing(program, data, indices, [outside[0] & seen])


def cached(q: Tensor, k: Tensor, v: Tensor, new: Tensor, slots: Tensor) -> Tensor:
    """Attention over a cache in which rows have been written."""
    keys, values = (x.index_copy(1, slots, y) for x, y in ((k, new), (v, new * 0.5)))
    return F.scaled_dot_product_attention(q, keys, values)


def not_cached(program: Program, data: Any, indices: Any, outside: Any) -> Tensor:
    """Write only the rows whose places exist."""
    *data, new = data
    return program(*data, new[:, ~outside[0]], indices[0][~outside[0]])


def experts(x: Tensor, gates: Tensor, w: Tensor, chosen: Tensor) -> Tensor:
    """Return each token by its chosen experts, weighted."""
    y = F.silu(torch.einsum("tk,tekn->ten", x, w[chosen]))
    return (y * gates[..., None]).sum(1)


def of_positions(x: Tensor, position: Tensor) -> Tensor:
    """Return rotary embeddings at given positions of a table."""
    angles = torch.arange(SIZE)[:, None] * 0.5 ** torch.arange(WIDTH // 2)
    cos, sin = (f(angles)[position].repeat(1, 2) for f in (torch.cos, torch.sin))
    return x * cos + torch.cat([-x[..., WIDTH // 2 :], x[..., : WIDTH // 2]], -1) * sin


def smoothed(x: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(x, target, reduction="none", label_smoothing=0.1)


def decayed(x: Tensor, y: Tensor, index: Tensor) -> Tensor:
    return x.index_copy(0, index, y) * 0.5


TABLE, LINES, OWN = (SIZE, WIDTH), (ROWS, SIZE), (ROWS,)

SUBJECTS: dict[str, Subject] = {
    "embedding": Subject(lambda w, i: F.embedding(i, w), (TABLE,), nothing_read),
    "embedding_i32": Subject(
        lambda w, i: F.embedding(i, w), (TABLE,), nothing_read, dtype=torch.int32
    ),
    "embedding_norm": Subject(
        lambda w, i: norm(F.embedding(i, w)), (TABLE,), nothing_read, tolerance=1e-5
    ),
    "rows": Subject(
        lambda x, i: norm(x[i]), (TABLE,), nothing_read, from_the_end=True,
        tolerance=1e-5,
    ),
    "rows_alone": Subject(lambda x, i: x[i], (TABLE,), nothing_read, from_the_end=True),
    "projected": Subject(
        lambda w, p, i: F.embedding(i, w) @ p, (TABLE, (WIDTH, 16)), nothing_read, half=True,
        tolerance=1e-2,
    ),
    "elements": Subject(
        lambda x, i, j: x[i, j].sin(), (TABLE,), nothing_read, ((ROWS, EACH),) * 2, (SIZE, WIDTH),
        True, tolerance=1e-5
    ),
    "columns": Subject(
        lambda x, i: x.index_select(1, i).sin(), ((5, SIZE),), columns_nothing, (OWN,),
        tolerance=1e-5
    ),
    "gather": Subject(lambda x, i: x.gather(1, i).sin(), (LINES,), nothing_read, tolerance=1e-5),
    "take_along": Subject(
        lambda x, i: torch.take_along_dim(x, i, 1).sin(), (LINES,), as_pytorch, lengths=(0,),
        tolerance=1e-5,
    ),
    "picked": Subject(
        lambda x, i: torch.softmax(x, 1).gather(1, i), (LINES,), value_outside(-torch.inf),
        ((ROWS, 1),), tolerance=1e-5,
    ),
    "cross_entropy": Subject(
        lambda x, i: F.cross_entropy(x, i, reduction="none", ignore_index=SIZE - 2), (LINES,),
        value_outside(torch.inf), (OWN,), tolerance=1e-5,
    ),
    "scatter": Subject(
        lambda x, i: x.scatter(1, i, 2.5), (LINES,), nowhere(1, grown=(0,))
    ),
    "index_add": Subject(
        lambda x, y, i: x.index_add(0, i, y), (TABLE, (ROWS, WIDTH)), nowhere(0, grown=(0,)),
        (OWN,), tolerance=1e-5,
    ),
    "scatter_add": Subject(
        lambda x, y, i: x.scatter_add(1, i, y), (LINES, (ROWS, EACH)), nowhere(1, grown=(0,)),
        tolerance=1e-5,
    ),
    "scatter_reduce": Subject(
        lambda x, y, i: x.scatter_reduce(1, i, y, "amax"), (LINES, (ROWS, EACH)),
        nowhere(1, grown=(0,)), tolerance=1e-5,
    ),
    "index_reduce": Subject(
        lambda x, y, i: x.index_reduce(0, i, y, "mean"), (TABLE, (ROWS, WIDTH)),
        nowhere(0, grown=(0,)), (OWN,), tolerance=1e-5,
    ),
    "index_put": Subject(
        lambda x, y, i: x.index_put((i,), y, accumulate=True), (TABLE, (ROWS, WIDTH)),
        from_end_nowhere(grown=(0,)), (OWN,), from_the_end=True, tolerance=1e-5,
    ),
    "bags": Subject(
        lambda w, i: F.embedding_bag(i, w, mode="mean"), (TABLE,), bag_nothing, tolerance=1e-5
    ),
    "one_hot": Subject(
        lambda x, i: F.one_hot(i, SIZE) * x[:, None], (LINES,), classes
    ),
    "lengths": Subject(
        by_length, (LINES,), as_pytorch, (OWN,), lengths=(0,), tolerance=1e-5
    ),
    "ragged": Subject(
        ragged, ((ROWS, 1, 1, 16), (ROWS, 1, 64, 16), (ROWS, 1, 64, 16)), as_pytorch, (OWN,), (64,),
        lengths=(0,), half=True, tolerance=5e-3,
    ),
    "windowed": Subject(
        windowed, ((ROWS, 1, 1, 16), (ROWS, 1, 64, 16), (ROWS, 1, 64, 16)), as_pytorch, (OWN,),
        (64,), lengths=(0,), half=True, tolerance=5e-3,
    ),
    "index_copy": Subject(
        decayed, (TABLE, (ROWS, WIDTH)), nowhere(0, grown=(0,)), (OWN,), tolerance=1e-6
    ),
    "topk_rows": Subject(
        best, (TABLE, LINES), as_pytorch, (OWN,), lengths=(0,), tolerance=1e-5
    ),
    "smoothed": Subject(smoothed, (LINES,), value_outside(torch.inf), (OWN,), tolerance=1e-5),
    "likelihoods": Subject(
        lambda x, i: F.nll_loss(x.log_softmax(1), i, reduction="none"), (LINES,),
        value_outside(torch.inf), (OWN,), tolerance=1e-5,
    ),
    "functions": Subject(
        lambda x, r, i: torch.tanh(x + r).gather(1, i), ((ROWS, 131101), (ROWS, 1)),
        columns_nothing, ((ROWS, 1),), (131101,), half=True, tolerance=1e-2,
    ),
    "filled": Subject(
        lambda x, y, i: x.index_fill(0, i, -1.5) * 0.5 + y, (TABLE, TABLE),
        from_end_nowhere(grown=(0, 1)), (OWN,), from_the_end=True,
    ),
    "stored": Subject(
        lambda x, y, i: x.scatter(1, i, y) + 1.0, (LINES, (ROWS, 1)), nowhere(1, grown=(0,)),
        ((ROWS, 1),),
    ),
    "wrapped": Subject(
        lambda x, i: x[i.remainder(SIZE)] * 2.0, (TABLE,), as_pytorch, lengths=(0,)
    ),
    "clamped": Subject(
        lambda x, i: norm(x[i.clamp(0, SIZE - 1)]), (TABLE,), as_pytorch, lengths=(0,),
        tolerance=1e-5,
    ),
    "rotated": Subject(
        of_positions, ((ROWS, WIDTH),), nothing_read, (OWN,), from_the_end=True, tolerance=1e-5
    ),
    "experts": Subject(
        experts, ((ROWS, 32), (ROWS, 2), (5, 32, 48)), experts_nothing, ((ROWS, 2),), (5,),
        from_the_end=True, half=True, tolerance=2e-2,
    ),
    "cached": Subject(
        cached, ((2, 1, 16), (2, 64, 16), (2, 64, 16), (2, ROWS, 16)), not_cached, (OWN,), (64,),
        half=True, tolerance=5e-3,
    ),
    "paged_attention": Subject(
        paged_attention, ((ROWS, 2, 1, 16), (SIZE, 2, 16), (SIZE, 2, 16)), rows_nothing,
        ((ROWS, 16), OWN), (SIZE, 16), True, lengths=(1,), half=True, tolerance=5e-3,
    ),
    "paged": Subject(
        paged, ((SIZE, 4, 8),), paged_nothing, ((ROWS, EACH), OWN), (SIZE, 4 * EACH), True,
        lengths=(1,), tolerance=1e-5,
    ),
}  # fmt: skip
"""All subjects, by name."""
