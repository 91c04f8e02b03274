"""Values whose dimensions have labels, and products that sum over labels that two of them share.

A label stands for one index of a program, whatever tensor it is in: a chain of products and views
is then a sum over labels of a product of tensors, in whatever order it was written. Views act on
labels: a reshape splits or merges them, and a slice is a part of one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from mirage.semantics.builder import Builder
from mirage.semantics.indexing.indices import reshape_groups
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import Value

Shape = tuple[int, ...]
Labels = tuple["Label", ...]


class UnlabelledError(Exception):
    """Labels cannot follow a view, for example one that takes a part of several merged
    dimensions."""


@dataclass(frozen=True, eq=False)
class Label:
    """An index below ``size``."""

    size: int


@dataclass(frozen=True, eq=False)
class Split:
    """A label that is split into several, outermost first."""

    whole: Label
    parts: Labels


@dataclass(frozen=True, eq=False)
class Cut:
    """A label of which ``part`` runs over the indices that start at ``offset``."""

    whole: Label
    part: Label
    offset: int


Step = Split | Cut


def labels_for(shape: Shape) -> tuple[Labels, ...]:
    """Return new labels, one for each dimension, and none for a dimension of size 1."""
    return tuple((Label(n),) if n != 1 else () for n in shape)


@dataclass(frozen=True)
class Seen:
    """A view of a tensor with labelled dimensions: the labels of the view's dimensions, and the
    ``steps`` from the original labels to these."""

    dims: tuple[Labels, ...]
    steps: tuple[Step, ...] = ()

    @property
    def shape(self) -> Shape:
        """The shape of the view."""
        return tuple(prod(label.size for label in labels) for labels in self.dims)

    def moved(self, sources: Mapping[int, int], shape: Shape) -> Seen:
        """Move dimensions, given the source of each dimension of the new ``shape``; a dimension
        without a source is repeated along a new label."""
        repeated = labels_for(shape)
        dims = (self.dims[sources[d]] if d in sources else repeated[d] for d in range(len(shape)))
        return Seen(tuple(dims), self.steps)

    def cut(self, offsets: Shape, shape: Shape) -> Seen:
        """Take a block. Raises :class:`UnlabelledError` if that is a part of several labels."""
        dims, steps = list(self.dims), list(self.steps)
        for dim, (labels, offset, size) in enumerate(zip(dims, offsets, shape, strict=True)):
            if size == prod(label.size for label in labels):
                continue
            if len(labels) != 1:
                raise UnlabelledError
            part = Label(size)
            steps.append(Cut(labels[0], part, offset))
            dims[dim] = (part,)
        return Seen(tuple(dims), tuple(steps))

    def reshaped(self, shape: Shape) -> Seen:
        """Return the view in another shape. Raises :class:`UnlabelledError` if its dimensions are
        neither labels nor parts of labels."""
        dims: list[Labels] = [()] * len(shape)
        steps = list(self.steps)
        for group in reshape_groups(self.shape, shape):
            left = [label for d in group.operand for label in self.dims[d]]
            for dim in group.result:
                dims[dim] = _taken(left, shape[dim], steps)
        return Seen(tuple(dims), tuple(steps))


def _taken(left: list[Label], size: int, steps: list[Step]) -> Labels:
    """Remove and return the first labels of ``left``, with ``size`` indices together; splits are
    noted in ``steps``."""
    taken: list[Label] = []
    while size > 1:
        label = left.pop(0)
        if size % label.size == 0:
            taken.append(label)
            size //= label.size
        elif label.size % size == 0:
            outer, inner = Label(size), Label(label.size // size)
            steps.append(Split(label, (outer, inner)))
            left.insert(0, inner)
            taken.append(outer)
            size = 1
        else:
            raise UnlabelledError
    return tuple(taken)


@dataclass(frozen=True)
class Labelled:
    """A value and the label of each of its dimensions."""

    value: Value
    labels: Labels


def labelled(
    b: Builder, value: Value, dims: Sequence[Labels], steps: Sequence[Step] = ()
) -> Labelled:
    """Return ``value``, whose dimensions have the labels ``dims``, after the ``steps`` that concern
    its labels."""
    labels = tuple(label for dim in dims for label in dim)
    value = shaped(b, value, tuple(label.size for label in labels))
    for step in steps:
        if step.whole not in labels:
            continue
        at = labels.index(step.whole)
        new = step.parts if isinstance(step, Split) else (step.part,)
        labels = (*labels[:at], *new, *labels[at + 1 :])
        shape = tuple(label.size for label in labels)
        if isinstance(step, Split):
            value = shaped(b, value, shape)
        else:
            offsets = tuple(step.offset if d == at else 0 for d in range(len(shape)))
            value = b.slice(value, offsets, shape)
    return Labelled(value, labels)


def shaped(b: Builder, value: Value, shape: Shape) -> Value:
    """Return the value in another shape, or itself if it has that shape."""
    return value if value.shape == shape else b.reshape(value, shape)


def in_order(b: Builder, x: Labelled, labels: Labels) -> Value:
    """Return the value with its dimensions in another order."""
    order = tuple(x.labels.index(label) for label in labels)
    return x.value if order == tuple(range(len(order))) else b.transpose(x.value, order)


def product(
    b: Builder, x: Labelled, y: Labelled, kept: Collection[Label], dtype: DType, *, tf32: bool
) -> Labelled:
    """Return the product of two values, summed over the labels that both have and that are not
    ``kept``: labels of ``x`` alone are rows, those of ``y`` alone columns."""
    both = tuple(label for label in x.labels if label in y.labels)
    batch = tuple(label for label in both if label in kept)
    summed = tuple(label for label in both if label not in kept)
    rows = tuple(label for label in x.labels if label not in both)
    columns = tuple(label for label in y.labels if label not in both)
    front = tuple(label.size for label in batch)
    m, k, n = (prod(label.size for label in labels) for labels in (rows, summed, columns))
    left = shaped(b, in_order(b, x, (*batch, *rows, *summed)), (*front, m, k))
    right = shaped(b, in_order(b, y, (*batch, *summed, *columns)), (*front, k, n))
    left, right = (v if v.dtype is dtype else b.cast(v, dtype) for v in (left, right))
    result = b.matmul(left, right, tf32=tf32)
    labels = (*batch, *rows, *columns)
    return Labelled(shaped(b, result, tuple(label.size for label in labels)), labels)
