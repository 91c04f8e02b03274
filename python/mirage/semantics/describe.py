"""µGraphs in words, for people.

kernel 1 of 1: grid n = 128, 4 warps, 3 stages
  for k in 64 steps over x[16, 4096/k], w[4096/k, 6144/n]:
    a0 += x @ w
    a1 += sum1(square(x))
  out0[16, 6144/n] = a0 * rsqrt(a1 * 0.000244140625 + 1e-06)
"""

from __future__ import annotations

from collections.abc import Iterator

from mirage.semantics.ops.op import bare
from mirage.semantics.ugraph import (
    AccumulateFn,
    External,
    KernelGraph,
    Launch,
    Load,
    Loop,
    Op,
    Scan,
    Source,
    Structure,
    TileMap,
    Value,
    all_ops,
    launches,
)

_UPDATE = {AccumulateFn.SUM: "+=", AccumulateFn.MAX: "max=", AccumulateFn.LAST: "="}


def describe(graph: KernelGraph) -> str:
    """Describe the kernels of ``graph``, one paragraph each, and the ops between them, one line
    each."""
    count = sum(1 for _ in launches(graph.ops))
    names: dict[Value, str] = {v: v.name or f"in{i}" for i, v in enumerate(graph.inputs)}
    names.update((v, f"out{i}") for i, v in enumerate(graph.outputs) if v not in names)
    lines: list[str] = []
    number = temporaries = 0
    for op in graph.ops:
        for v in op.results:
            if v not in names:
                names[v] = f"tmp{temporaries}"
                temporaries += 1
        if isinstance(op, Launch):
            number += 1
            lines.extend(_Kernel(op, names).lines(f"kernel {number} of {count}"))
        elif not isinstance(op, Source):
            made = _tensor_op(op, [names[v] for v in op.operands])
            lines.append(f"{', '.join(names[v] for v in op.results)} = {made}")
    return "\n".join(lines)


def _tensor_op(op: Op, operands: list[str]) -> str:
    """Describe an op between the kernels."""
    if op.cut_at is not None:
        block = zip(op.cut_at, op.result.shape, op.operands[0].shape, strict=True)
        return f"{operands[0]}[{', '.join(':' if n == m else f'{o}:{o + n}' for o, n, m in block)}]"
    if op.renames:
        return f"{operands[0]} as [{', '.join(map(str, op.result.shape))}]"
    what = f"torch {op.target}" if isinstance(op, External) else type(op).__name__.lower()
    return f"{what}({', '.join(operands)})"


class _Kernel:
    def __init__(self, launch: Launch, names: dict[Value, str]) -> None:
        self.launch = launch
        self.names = names
        self.params = {
            p: names[v] for p, v in zip(launch.body.params, launch.operands, strict=True)
        }
        self.text: dict[Value, str] = {}
        self.uses: dict[Value, int] = {}
        for op in all_ops(launch.body.ops):
            read = op.operands
            if isinstance(op, Structure):
                read = op.ends
            for v in read:
                self.uses[v] = self.uses.get(v, 0) + 1
        for output in launch.body.outputs:
            self.uses[output.value] = self.uses.get(output.value, 0) + 1
        self.counters = {"a": 0, "t": 0, "m": 0}

    def lines(self, title: str) -> Iterator[str]:
        launch = self.launch
        grid = " x ".join(f"{a.name} = {a.extent}" for a in launch.grid) or "one block"
        schedule = f"{launch.schedule.warps} warps, {launch.schedule.stages} stages"
        if launch.schedule.warpgroups:
            schedule += ", products by warpgroups"
        if launch.schedule.resident:
            schedule += f", {launch.schedule.resident} blocks for all positions"
        if launch.schedule.cluster > 1:
            schedule += f", clusters of {launch.schedule.cluster} blocks"
        yield f"{title}: grid {grid}, {schedule}"
        yield from self._body(launch.body.ops, "  ")
        for output, result in zip(launch.body.outputs, launch.results, strict=True):
            where = _place(result.shape, output.map)
            yield f"  {self.names[result]}{where} = {bare(self.text[output.value])}"

    def _body(self, ops: tuple[Op, ...], indent: str) -> Iterator[str]:
        for op in ops:
            if isinstance(op, Loop):
                yield from self._loop(op, indent)
                continue
            text = op.written([self.text.get(v) or self.params[v] for v in op.operands])
            scanned = isinstance(op, Scan)
            named = isinstance(op, Source) or text in (self.text.get(v) for v in op.operands)
            if scanned or (self.uses.get(op.result, 0) > 1 and not named):
                name = self._fresh("m" if scanned else "t")
                yield f"{indent}{name} = {bare(text)}"
                text = name
            self.text[op.result] = text

    def _loop(self, loop: Loop, indent: str) -> Iterator[str]:
        loads = [op for op in loop.body if isinstance(op, Load)]
        over = ", ".join(
            dict.fromkeys(
                f"{self.params[op.operands[0]]}{_place(op.operands[0].shape, op.map)}"
                for op in loads
            )
        )
        reads = f" over {over}" if over else ""
        taken = ""
        if loop.steps is not None:
            taken = f" from {loop.steps.first} to {loop.steps.end}"
            for i, (load, r) in enumerate(zip(loop.reads, loop.steps.readings, strict=True)):
                (tensor,) = load.operands
                part = f"{self.params[tensor]}{_place(tensor.shape, r.map)}"
                taken += f", read{i} = {part if r.single else f'{r.fn.value}({part})'}"
        yield f"{indent}for {loop.axis.name} in {loop.axis.extent} steps{taken}{reads}:"
        yield from self._body(loop.body, indent + "  ")
        for accumulator, result in zip(loop.accumulators, loop.results, strict=True):
            name = self._fresh("a")
            note = ""
            if accumulator.rescale is not None:
                note = f" (rescaled by {self.text[accumulator.rescale]})"
            value = bare(self.text[accumulator.value])
            yield f"{indent}  {name} {_UPDATE[accumulator.fn]} {value}{note}"
            self.text[result] = name

    def _fresh(self, kind: str) -> str:
        name = f"{kind}{self.counters[kind]}"
        self.counters[kind] += 1
        return name


def _place(shape: tuple[int, ...], tile_map: TileMap) -> str:
    """Return a tensor's shape with the axes that cut each dimension, as text."""
    dims = ("/".join((str(n), *axes)) for n, axes in zip(shape, tile_map, strict=True))
    return f"[{', '.join(dims)}]"
