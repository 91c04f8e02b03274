"""Elements of a table at several indices, as a formula.

An index is a tensor, or the index of the result along one of its dimensions. Negative indices may
count from the end. The element at an index outside of its dimension is NaN (0 for integers).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mirage.semantics.builder import Builder
from mirage.semantics.integer_formula import (
    CONSTANT,
    LOAD,
    PICK,
    POSITION,
    TABLE,
    Formula,
    Step,
)
from mirage.semantics.integer_functions import CAST
from mirage.semantics.integers import Integers
from mirage.semantics.ops.op import TensorType, Value
from mirage.semantics.scalar import BinaryFn, DType


@dataclass(frozen=True)
class Index:
    """An index along one dimension of a table: ``tensor``, whose dimensions lie along ``dims`` of
    the result, or the position along the only one of ``dims``, which may be counted down from
    ``last``."""

    dims: tuple[int, ...]
    tensor: Value | None = None
    from_end: bool = False
    last: int | None = None


def picked_elements(
    b: Builder, table: Value, indices: Sequence[Index], shape: tuple[int, ...]
) -> Value:
    """Emit the elements of ``table`` at an index for each of its dimensions."""
    loaded = [i for i in indices if i.tensor is not None]
    counted = list(dict.fromkeys(i.dims[0] for i in indices if i.tensor is None))
    counted = [d for d in counted if shape[d] > 1]
    steps = [Step(TABLE, (len(table.shape),))]
    steps += [Step(LOAD, _wide(i.dims, i.tensor)) for i in loaded]
    first = len(steps)
    steps += [Step(POSITION, (d,), DType.I64) for d in counted]
    writer = _Writer(steps)
    numbers: list[int] = []
    for index, size in zip(indices, table.shape, strict=True):
        if index.tensor is None:
            (dim,) = index.dims
            at = first + counted.index(dim) if dim in counted else writer.constant(0)
            at = at if index.last is None else writer.down(index.last, at)
        else:
            at = 1 + loaded.index(index)
            at = writer.counted_from_start(at, size) if index.from_end else at
        numbers.append(at)
    writer.step(PICK, (0, *numbers), table.dtype)
    tensors = tuple(i.tensor for i in loaded if i.tensor is not None)
    result = Value(TensorType(shape, table.dtype))
    op = Integers((table, *tensors), (result,), Formula(tuple(writer.steps)))
    op.result_type(b)
    b.ops.append(op)
    return result


def indexed_dims(op: Integers) -> tuple[bool, ...] | None:
    """Return along which dimensions of a table, the first operand, the others are indices, in their
    order, as in ``table[i, :, j]``; None if a formula is not such a lookup."""
    formula, rank = op.formula, len(op.result.shape)
    *_, last = formula.steps
    if last.name != PICK or set(formula.tables) != {0}:
        return None
    table = op.operands[0]
    named = sorted(formula.indices, key=lambda index: index[2])
    dims = [dim for _, _, dim, _ in named]
    rest = [d for d in range(len(table.shape)) if d not in dims]
    if not dims or [index for index, *_ in named] != list(range(1, len(op.operands))):
        return None
    lead = dims[0] if dims == list(range(dims[0], dims[0] + len(dims))) else 0
    end = lead + rank - len(rest)
    for number, along in enumerate(formula.loads[1:], start=1):
        if len(along) > end - lead or along != _wide(
            tuple(range(end - len(along), end)), op.operands[number]
        ):
            return None
    places = [*range(lead), *range(end, rank)]
    for d, at in zip(rest, places, strict=True):
        if op.result.shape[at] != table.shape[d]:
            return None
        step = formula.steps[last.args[1 + d]]
        if (step.name, step.args) != _own(at, table.shape[d]):
            return None
    return tuple(d in dims for d in range(dims[-1] + 1))


def reversed_dims(op: Integers) -> tuple[int, ...] | None:
    """Return the dimensions along which a formula gives the only operand in reverse; None if it is
    another formula."""
    formula, shape = op.formula, op.result.shape
    *_, last = formula.steps
    if last.name != PICK or len(op.operands) != 1 or op.operands[0].shape != shape:
        return None
    found: list[int] = []
    for d, n in enumerate(shape):
        step = formula.steps[last.args[1 + d]]
        if step.name == BinaryFn.SUB.value:
            end, step = (formula.steps[arg] for arg in step.args)
            if (end.name, end.args) != (CONSTANT, (n - 1,)):
                return None
            found.append(d)
        if (step.name, step.args) != _own(d, n):
            return None
    return tuple(found)


def along_one_dimension(op: Integers) -> int | None:
    """Return the dimension along which the only index of a formula selects elements, each from its
    own line, as ``gather`` does; None if it is another formula."""
    formula, every = op.formula, range(len(op.result.shape))
    *_, last = formula.steps
    if last.name != PICK or len(op.operands) != 2 or len(formula.indices) != 1:
        return None
    ((_, _, dim, from_end),) = formula.indices
    table, index = op.operands
    if from_end or index.shape != op.result.shape or len(table.shape) != len(index.shape):
        return None
    if index.dtype is not DType.I64 or formula.loads[1] != _wide(tuple(every), index):
        return None
    for d in every:
        step = formula.steps[last.args[1 + d]]
        if d != dim and (step.name, step.args) != _own(d, index.shape[d]):
            return None
    return dim


def _own(dim: int, size: int) -> tuple[str, tuple[int, ...]]:
    """Return the name and the arguments of the step that is the index along a dimension."""
    return (POSITION, (dim,)) if size > 1 else (CONSTANT, (0,))


def _wide(dims: tuple[int, ...], tensor: Value | None) -> tuple[int, ...]:
    assert tensor is not None
    return tuple(-1 if n == 1 else d for d, n in zip(dims, tensor.shape, strict=True))


@dataclass
class _Writer:
    steps: list[Step] = field(default_factory=list[Step])

    def step(self, name: str, args: tuple[int, ...], dtype: DType) -> int:
        self.steps.append(Step(name, args, dtype))
        return len(self.steps) - 1

    def constant(self, number: int) -> int:
        return self.step(CONSTANT, (number,), DType.I64)

    def down(self, last: int, at: int) -> int:
        return self.step(BinaryFn.SUB.value, (self.constant(last), at), DType.I64)

    def counted_from_start(self, at: int, size: int) -> int:
        negative = self.step(BinaryFn.LT.value, (at, self.constant(0)), DType.I1)
        negative = self.step(CAST, (negative,), DType.I64)
        more = self.step(BinaryFn.MUL.value, (negative, self.constant(size)), DType.I64)
        return self.step(BinaryFn.ADD.value, (at, more), DType.I64)
