"""Cuts a program at the calls that stay with the framework.

What lies between two such calls is a program of its own, that is searched and compiled on its own.
Ops go to the earliest part that has all their operands, so the number of parts is the depth of
external calls plus one."""

from __future__ import annotations

from dataclasses import dataclass

from mirage.semantics.ugraph import Constant, External, KernelGraph, Op, Value


@dataclass(frozen=True)
class Part:
    """A program between external calls. Its inputs and outputs are values of the whole program."""

    graph: KernelGraph


Step = Part | External


def partition(graph: KernelGraph) -> tuple[Step, ...]:
    """The parts and external calls of ``graph``, in an order in which they can run."""
    depth: dict[Value, int] = dict.fromkeys(graph.inputs, 0)
    levels: dict[int, list[Op]] = {}
    for op in graph.ops:
        level = max((depth[v] for v in op.operands), default=0)
        levels.setdefault(level, []).append(op)
        depth.update(dict.fromkeys(op.results, level + isinstance(op, External)))
    constants = {op.result: op for op in graph.ops if isinstance(op, Constant)}
    steps: list[Step] = []
    for level in sorted(levels):
        ops = [op for op in levels[level] if _belongs(op, graph)]
        if ops:
            steps.append(Part(_part(graph, ops, constants, len(steps))))
        steps.extend(op for op in levels[level] if isinstance(op, External))
    if sum(isinstance(step, Part) for step in steps) == 1 and len(steps) == 1:
        return (Part(graph),)
    return tuple(steps)


def _belongs(op: Op, graph: KernelGraph) -> bool:
    """Whether an op makes a part necessary; a constant does where it is a result of the program."""
    if isinstance(op, Constant):
        return op.result in graph.outputs
    return not isinstance(op, External)


def _part(
    graph: KernelGraph, ops: list[Op], constants: dict[Value, Constant], number: int
) -> KernelGraph:
    defined = {v for op in ops for v in op.results}
    read = dict.fromkeys(v for op in ops for v in op.operands)
    # A constant is repeated in every part that reads it: it needs no memory.
    needed = [constants[v] for v in read if v in constants and v not in defined]
    inside = set(ops)
    wanted = {v for op in graph.ops if op not in inside for v in op.operands} | set(graph.outputs)
    inputs = tuple(v for v in read if v not in defined and v not in constants)
    outputs = tuple(v for op in ops for v in op.results if v in wanted)
    return KernelGraph(f"{graph.name}_{number}", inputs, (*needed, *ops), outputs)
