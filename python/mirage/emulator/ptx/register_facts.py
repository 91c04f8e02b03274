"""Static facts about registers: which reads may see an unwritten one, and how many live at once."""

from __future__ import annotations

from collections.abc import Callable

from mirage.emulator.ptx.syntax import Instruction, Kernel

Target = Callable[[Instruction], "int | None"]


def analyse(kernel: Kernel, target: Target) -> int:
    """Set `tracked` on registers that some path reads before writing (a write under a guard does
    not count), so that only those are checked while running. Return the peak number of 32-bit
    registers that are live at once (predicates not counted)."""
    body = kernel.body
    count = len(body)
    successors: list[list[int]] = []
    for i, instruction in enumerate(body):
        follow: list[int] = []
        goal = target(instruction)
        if goal is not None:
            follow.append(goal)
        ends = instruction.opcode in ("ret", "exit", "bra", "trap", "brx")
        if i + 1 < count and (not ends or instruction.guard is not None):
            follow.append(i + 1)
        follow += [kernel.labels[name] for name in instruction.jump_table]
        successors.append(follow)
    define = [0] * count
    use = [0] * count
    for i, instruction in enumerate(body):
        for register in [*instruction.uses, *(source for source, _ in instruction.copies)]:
            use[i] |= 1 << register.index
        if instruction.guard is not None:
            use[i] |= 1 << instruction.guard.index
        else:
            for register in instruction.defs:
                define[i] |= 1 << register.index
    _definite(kernel, successors, define, use)
    return _pressure(kernel, successors, define, use)


def _definite(
    kernel: Kernel, successors: list[list[int]], define: list[int], use: list[int]
) -> None:
    """Forward: registers written on every path to an instruction."""
    everything = (1 << len(kernel.registers)) - 1
    before = [everything] * len(define)
    before[0] = 0
    work = [0]
    seen = {0}
    while work:
        i = work.pop()
        after = before[i] | define[i]
        for j in successors[i]:
            joined = before[j] & after
            if joined != before[j] or j not in seen:
                before[j] = joined
                seen.add(j)
                work.append(j)
    unsure = 0
    for i in seen:
        unsure |= use[i] & ~before[i]
    copies = [
        (source, target)
        for instruction in kernel.body
        for source, target in instruction.copies
        if target is not None
    ]
    before_copies = -1
    while before_copies != unsure:
        before_copies = unsure
        for source, target in copies:
            if unsure >> source.index & 1:
                unsure |= 1 << target.index
    for register in kernel.registers:
        register.tracked = bool(unsure >> register.index & 1)


def _pressure(
    kernel: Kernel, successors: list[list[int]], define: list[int], use: list[int]
) -> int:
    """Backward liveness, then the peak."""
    count = len(define)
    live = [0] * count
    predecessors: list[list[int]] = [[] for _ in range(count)]
    for i, follow in enumerate(successors):
        for j in follow:
            predecessors[j].append(i)
    work = list(range(count))
    while work:
        i = work.pop()
        after = 0
        for j in successors[i]:
            after |= live[j]
        value = use[i] | (after & ~define[i])
        if value != live[i]:
            live[i] = value
            work.extend(predecessors[i])
    wide = narrow = 0
    for register in kernel.registers:
        if register.type == "pred":
            continue
        if register.bytes > 4:
            wide |= 1 << register.index
        else:
            narrow |= 1 << register.index
    return max(((v & narrow).bit_count() + 2 * (v & wide).bit_count() for v in live), default=0)
