"""A canonical text of a kernel graph: equal texts mean equal graphs up to the names of values."""

from __future__ import annotations

from dataclasses import fields

from mirage.semantics.ugraph import KernelGraph, Launch, Loop, Op, Structure, Value


def _text(op: Op, name: str) -> str:
    """An attribute; arguments by name have no order."""
    value: object = getattr(op, name)
    return str(tuple(sorted(value)) if name == "arguments" else value)  # pyright: ignore


def signature(graph: KernelGraph) -> str:
    """Ops, attributes and types, with values numbered in order of definition."""
    numbers: dict[Value, int] = {}
    lines: list[str] = []

    def number(value: Value) -> str:
        return f"%{numbers.setdefault(value, len(numbers))}:{value.type}"

    def visit(op: Op) -> None:
        skipped = ("operands", "results", "body", "accumulators")
        attributes = [f"{f.name}={_text(op, f.name)}" for f in fields(op) if f.name not in skipped]
        operands = ",".join(number(v) for v in op.operands)
        if isinstance(op, Launch):
            for param, operand in zip(op.body.params, op.operands, strict=True):
                numbers[param] = int(number(operand)[1:].split(":")[0])
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
