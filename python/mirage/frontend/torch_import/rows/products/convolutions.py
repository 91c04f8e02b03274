"""Rows of convolutions.

If no two patches overlap, a convolution is one product of the weights with the patches. If each
channel has its own small kernel, it is a sum of elementwise products
(:mod:`~mirage.frontend.torch_import.rows.products.channelwise`). Otherwise it is a sum of products
with shifted views of the input, one for each place of the kernel. A kernel that reads the input so
many times is slower than the library, so that form is only for programs in which no call of PyTorch
may remain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product

from mirage.frontend.torch_import.rows.lowering import Lowering, Row, wide
from mirage.frontend.torch_import.rows.movement.views import padded, strided
from mirage.frontend.torch_import.rows.products.channelwise import Steps, channelwise
from mirage.frontend.torch_import.rows.torch_call import Call, Unsupported
from mirage.semantics.scalar import BinaryFn
from mirage.semantics.ugraph import Value

_FEW_PLACES = 9
"""The most places of a kernel that belongs to one channel; with more, the library is faster."""
_MOST_PLACES = 64
"""The most places of a kernel whose products are added."""


@dataclass(frozen=True)
class _Convolution:
    """``op(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups)``: for
    each dimension of space, the outputs, the kernel's size, the steps between outputs and between
    elements of the kernel, and the zeros at each end."""

    counts: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    @property
    def pointwise(self) -> bool:
        return all(k == 1 for k in self.kernel)


def _of(c: Call) -> _Convolution:
    if c.arg(6):
        raise Unsupported("a transposed convolution")
    kernel = c.value(1).shape[2:]
    each = (c.integers(i) for i in (3, 4, 5))
    stride, padding, dilation = (x * len(kernel) if len(x) == 1 else x for x in each)
    counts = c.result.shape[2:]
    return _Convolution(counts, kernel, stride, padding, dilation, c.integer(8))


def _convolution(b: Lowering, c: Call) -> Value:
    """A convolution that needs no call of PyTorch, or is faster without one."""
    x, weight, conv = c.value(0), c.value(1), _of(c)
    few = math.prod(conv.kernel) <= _FEW_PLACES and not conv.pointwise
    if few and conv.groups == weight.shape[0] == x.shape[1] > 1:
        if not any(conv.padding) and all(s == 1 for s in conv.stride):
            return _by_places(b, c)  # slices are addresses
        each = (conv.counts, conv.kernel, conv.stride, conv.padding, conv.dilation)
        steps = [Steps(*numbers) for numbers in zip(*each, strict=True)]
        # with a dynamic size, calls would look up the rows of a batch
        found = None if b.sized else channelwise(b, x, weight, steps)
        if found is not None:
            return _with_bias(b, c, found)
    return _in_patches(b, c)


def _in_patches(b: Lowering, c: Call) -> Value:
    """A convolution of which no two outputs read the same input, as pointwise ones (strided ones
    too) and patch embeddings."""
    x, weight, conv = c.value(0), c.value(1), _of(c)
    patches = conv.pointwise or conv.stride == conv.kernel
    if conv.groups != 1 or any(conv.padding) or not patches:
        raise Unsupported("a convolution whose kernel is not its stride, or padded, or in groups")
    if any(d != 1 for d in conv.dilation) and not conv.pointwise:
        raise Unsupported("a convolution with dilation")
    batch, channels, *_ = x.shape
    counts = conv.counts
    for i, (n, k, step) in enumerate(zip(counts, conv.kernel, conv.stride, strict=True)):
        whole = step == k
        x = b.cut(x, i + 2, 0, n * k) if whole else strided(b, x, i + 2, 0, step, n)
    if not conv.pointwise:
        pairs = [n for pair in zip(counts, conv.kernel, strict=True) for n in pair]
        x = b.reshape(x, (batch, channels, *pairs))
        inner, outer = range(3, len(x.shape), 2), range(2, len(x.shape), 2)
        x = b.permuted(x, (0, 1, *inner, *outer))
    depth = weight.type.size // weight.shape[0]
    x = b.reshaped(x, (batch, depth, math.prod(counts)))
    return _with_bias(b, c, b.matmul(b.reshaped(weight, (weight.shape[0], depth)), x))


def _with_bias(b: Lowering, c: Call, y: Value) -> Value:
    """Return a result ``[N, C, …]`` with the bias of each channel, in the shape of the result."""
    bias = c.optional(2)
    if bias is not None:
        each = b.reshape(b.typed(bias, y.dtype), (bias.shape[0], *(1 for _ in y.shape[2:])))
        y = b.binary(BinaryFn.ADD, y, each)
    return b.reshaped(y, c.result.shape)


def _by_places(b: Lowering, c: Call) -> Value:
    """A convolution with padding, dilation, groups or patches that overlap."""
    x, weight, conv = wide(b, c.value(0)), wide(b, c.value(1)), _of(c)
    places = list(product(*(range(k) for k in conv.kernel)))
    if not 0 < len(places) <= _MOST_PLACES:
        raise Unsupported(
            f"a convolution with a kernel of {len(places)} places (limit {_MOST_PLACES})"
        )
    for i, n in enumerate(conv.padding):
        x = padded(b, x, i + 2, n, n)
    terms = [_at_place(b, x, weight, conv, place) for place in places]
    y = reduce(lambda u, v: b.binary(BinaryFn.ADD, u, v), terms)
    return _with_bias(b, c, b.reshaped(y, (x.shape[0], weight.shape[0], math.prod(conv.counts))))


def _at_place(
    b: Lowering, x: Value, weight: Value, conv: _Convolution, place: Sequence[int]
) -> Value:
    """Return the products with one place of the kernel, as a matrix for each group: its channels,
    and all outputs."""
    for i, at in enumerate(place):
        start, step = at * conv.dilation[i], conv.stride[i]
        x = strided(b, x, i + 2, start, step, conv.counts[i])
        weight = b.cut(weight, i + 2, at, 1)
    depth = weight.shape[1]
    x = b.reshaped(x, (x.shape[0], conv.groups, depth, math.prod(conv.counts)))
    weight = b.reshaped(weight, (conv.groups, weight.shape[0] // conv.groups, depth))
    if conv.groups == 1:
        return b.matmul(
            b.reshaped(weight, weight.shape[1:]), b.reshaped(x, (x.shape[0], *x.shape[2:]))
        )
    if depth == 1:
        return b.binary(BinaryFn.MUL, weight, x)
    return b.matmul(weight, x)


CONVOLUTIONS: dict[str, Row] = {"aten.convolution": _convolution}
"""Convolutions that are one product."""
CONVOLUTIONS_BY_PLACES: dict[str, Row] = {"aten.convolution": _by_places}
"""Convolutions that are a sum of products."""
