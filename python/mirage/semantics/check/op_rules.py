"""Rules of values and of single ops: scopes, sizes and types."""

from __future__ import annotations

from mirage.semantics.builder import Builder, ShapeError
from mirage.semantics.ugraph import Op, TensorType, UnknownOp, Value


class InvalidGraph(ValueError):
    """A graph breaks a structural rule; ``rule`` is its number."""

    def __init__(self, rule: str, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem} [{rule}]")
        self.rule = rule
        self.where = where


def define(defined: set[Value], value: Value, where: str) -> None:
    if value in defined:
        raise InvalidGraph("C1", where, "expected a new value, got one that is defined already")
    if any(n < 1 for n in value.shape):
        raise InvalidGraph("C3", where, f"expected sizes of at least 1, got {value.type}")
    defined.add(value)


def check_scope(op: Op, defined: set[Value], where: str) -> None:
    for i, v in enumerate(op.operands):
        if v not in defined:
            raise InvalidGraph(
                "C1",
                where,
                f"operand {i} ({v.type}) is not defined before it is used, or not in scope",
            )


def check_type(op: Op, where: str, *, in_block: bool) -> None:
    if len(op.results) != 1:
        raise InvalidGraph("C2", where, f"expected one result, got {len(op.results)}")
    try:
        expected = result_type(op, where, in_block=in_block)
    except (ShapeError, ValueError, IndexError) as error:
        if isinstance(error, InvalidGraph):
            raise
        raise InvalidGraph("C2", where, str(error)) from error
    if expected != op.result.type:
        raise InvalidGraph(
            "C2", where, f"expected a result of type {expected}, got {op.result.type}"
        )


def arity(op: Op, where: str, low: int, high: int) -> None:
    if not low <= len(op.operands) <= high:
        wanted = str(low) if low == high else f"{low} to {high}"
        raise InvalidGraph("C2", where, f"expected {wanted} operands, got {len(op.operands)}")


def result_type(op: Op, where: str, *, in_block: bool) -> TensorType:
    """Return the type of an op's result, given its operands (for ops other than launches, loops,
    loads and masks).

    Raises :class:`InvalidGraph` and :class:`mirage.semantics.builder.ShapeError`; ``where`` goes
    into messages.
    """
    if in_block and not op.in_block:
        raise InvalidGraph("C4", where, "expected an op of the block level, got another one")
    arity(op, where, *op.arity)
    if op.number is not None and op.number != op.number:
        raise InvalidGraph("C10", where, "expected a number, got NaN")
    try:
        return op.result_type(Builder(in_block))
    except UnknownOp:
        raise InvalidGraph("C4", where, "expected a known op") from None
