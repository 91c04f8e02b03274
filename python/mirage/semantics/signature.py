"""A canonical text of a kernel graph: equal texts mean equal graphs up to the names of values."""

from __future__ import annotations

from dataclasses import fields
from functools import cache

from mirage.semantics.ugraph import KernelGraph, Launch, Loop, Op, Structure, Value


def _text(op: Op, name: str) -> str:
    """Return an attribute as text; arguments by name are sorted."""
    value: object = getattr(op, name)
    return str(tuple(sorted(value)) if name == "arguments" else value)  # pyright: ignore


@cache
def _attributes(kind: type[Op]) -> tuple[str, ...]:
    """Return the attributes of a class of ops, without values and inner ops."""
    skipped = ("operands", "results", "body", "accumulators")
    return tuple(f.name for f in fields(kind) if f.name not in skipped)


def signature(graph: KernelGraph) -> str:
    """Return the ops, attributes and types as text, with values numbered in order of definition."""
    numbers: dict[Value, int] = {}
    texts: dict[Value, str] = {}
    lines: list[str] = []

    def number(value: Value) -> str:
        text = texts.get(value)
        if text is None:
            place = numbers.setdefault(value, len(numbers))
            text = texts[value] = f"%{place}:{value.type}"
        return text

    def visit(op: Op) -> None:
        attributes = [f"{name}={_text(op, name)}" for name in _attributes(type(op))]
        operands = ",".join(number(v) for v in op.operands)
        if isinstance(op, Launch):
            for param, operand in zip(op.body.params, op.operands, strict=True):
                number(operand)
                numbers[param] = numbers[operand]
                texts[param] = f"%{numbers[param]}:{param.type}"
        if isinstance(op, Structure):
            lines.append("{")
            for inner in op.inside:
                visit(inner)
            lines.append("}")
        if isinstance(op, Loop):
            for a in op.accumulators:
                rescale = number(a.rescale) if a.rescale is not None else ""
                lines.append(f"{a.fn.value} {number(a.value)} {rescale}")
        if isinstance(op, Launch):
            lines.extend(f"store {number(o.value)} {o.map}" for o in op.body.outputs)
        results = ",".join(number(v) for v in op.results)
        lines.append(f"{results}={type(op).__name__}({operands}){attributes}")

    for value in graph.inputs:
        number(value)
    for op in graph.ops:
        visit(op)
    lines.append(",".join(number(v) for v in graph.outputs))
    return "\n".join(lines)
