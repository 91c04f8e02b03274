"""A kernel compiled to closures, and the loop that executes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mirage.emulator import ops as _ops
from mirage.emulator.errors import DivergenceError, PtxSyntaxError, Site
from mirage.emulator.machine.cohort import Array, Cohort
from mirage.emulator.machine.flags import all_of, any_of
from mirage.emulator.machine.operands import read_raw
from mirage.emulator.ops.opcodes import Compiled, Context, Control, Modifiers, Run
from mirage.emulator.ptx.register_facts import analyse
from mirage.emulator.ptx.syntax import Instruction, Kernel, LabelRef, Register

if TYPE_CHECKING:
    from mirage.emulator.machine.machine import Machine


class Step:
    """One compiled instruction, and how often warps executed it."""

    __slots__ = ("control", "count", "kind", "required", "run")

    def __init__(self, compiled: Compiled, run: Run | None) -> None:
        self.kind = compiled.kind
        self.run = run
        self.control: Control | None = compiled.control
        self.required = compiled.required
        self.count = 0


class Program:
    """Compiles every instruction once; `features` says which state the machine needs."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        last = kernel.body[-1] if kernel.body else None
        if last is None or last.opcode not in ("ret", "exit", "bra") or last.guard is not None:
            site = last.site if last else kernel.site
            end = Instruction("ret", (), (), None, False, Site(site.line, "end of kernel"))
            end.index = len(kernel.body)
            kernel.body.append(end)
        self._check_labels()
        context = Context(kernel)
        compiled = [_compile(context, instruction) for instruction in kernel.body]
        self.steps = [Step(c, _guarded(c, i)) for c, i in zip(compiled, kernel.body, strict=True)]
        self.features = context.features
        self.shared_granule = context.shared_granule
        self.global_granule = context.global_granule
        self.polling_loops: set[int] = set()
        """Backward branches of loops that wait for memory to change."""
        self.plain_spins: set[int] = set()
        """Polling loops that read the memory with plain loads, which may never see the change."""
        self._find_loops(compiled)
        leaders = {0, *kernel.labels.values()}
        leaders |= {i + 1 for i, c in enumerate(compiled) if c.control is not None}
        self.leader = [i in leaders for i in range(len(kernel.body) + 1)]
        of_wgmma = {r for i in kernel.body for r in i.wgmma_registers if i.opcode == "wgmma"}
        self.wgmma_registers = [r for r in kernel.registers if r in of_wgmma]
        self.live_registers = analyse(kernel, self.target)
        self.local_bytes = _lay_out_local(kernel)

    def _find_loops(self, compiled: Sequence[Compiled]) -> None:
        for i, instruction in enumerate(self.kernel.body):
            target = self.target(instruction)
            if target is None or target > i:
                continue
            if any(c.polls for c in compiled[target : i + 1]):
                self.polling_loops.add(i)
            elif spins(self.kernel.body[target : i + 1], compiled[target : i + 1]):
                self.polling_loops.add(i)
                self.plain_spins.add(i)

    @property
    def minimum_blocks(self) -> int:
        """The value of `.minnctapersm`, 1 if not given."""
        return (self.kernel.directives.get("minnctapersm") or (1,))[0]

    def registers_per_thread(self, threads: int) -> int:
        """Return the registers that ptxas may give a thread: `.maxnreg`, or else an equal share of
        the register file among the threads of the blocks that have to fit, in steps of 8, at most
        255 (counted as 256 by setmaxnreg, never more than the file holds)."""
        given = self.kernel.directives.get("maxnreg")
        if given:
            return given[0]
        warps = -(-threads // 32)
        share = 65536 // (self.minimum_blocks * warps * 32)
        return min(share // 8 * 8, 256)

    def target(self, instruction: Instruction) -> int | None:
        """Return the index that a branch goes to."""
        if instruction.opcode != "bra" or not instruction.operands:
            return None
        label = instruction.operands[0]
        return self.kernel.labels[label.name] if isinstance(label, LabelRef) else None

    def forget(self) -> None:
        """Free the registers' values after a launch."""
        for register in self.kernel.registers:
            register.data = np.zeros((0, 32), np.uint32)
            register.written = register.async_state = None

    def _check_labels(self) -> None:
        for instruction in self.kernel.body:
            for operand in instruction.operands:
                if isinstance(operand, LabelRef) and self.kernel.labels.get(operand.name, 0) >= len(
                    self.kernel.body
                ):
                    raise PtxSyntaxError(
                        "expected an instruction after the label, got the end of the kernel",
                        site=instruction.site,
                    )

    def execute(self, machine: Machine, c: Cohort, pc: int) -> None:
        """Run a cohort from `pc` until it blocks, splits, or others are ready to merge with it."""
        steps, leader, scheduler = self.steps, self.leader, machine.scheduler
        counters, budget = machine.counters, machine.limits.max_instructions
        while True:
            step = steps[pc]
            machine.step_index = pc
            if step.required is not None and (c.mask is not None or pc in scheduler.converging):
                complete = scheduler.converge(c, pc, step.required(c))
                if complete is None:
                    return
                c = complete
            step.count += c.n
            counters.instructions += c.n
            if step.control is not None:
                if counters.instructions > budget:
                    scheduler.fail_budget(pc, c)
                following = step.control(c, pc)
                if following is None:
                    return
                pc = following
            else:
                assert step.run is not None
                step.run(c)
                pc += 1
                if not leader[pc]:
                    continue
            if scheduler.ready:
                scheduler.push(pc, c.rows, c.mask)
                return


def spins(body: Sequence[Instruction], compiled: Sequence[Compiled]) -> bool:
    """Return whether a loop only loads and computes, and each iteration depends only on memory: no
    iteration reads a register that the previous one wrote, so all iterations are equal until
    another warp changes memory."""
    loads = ("load-global", "load-shared", "load-generic")
    if not any(c.kind in loads for c in compiled):
        return False
    if any(c.control is not None for c in compiled[:-1]):
        return False
    if any(c.kind.startswith(("store", "atomic", "synchronise")) for c in compiled):
        return False
    written: set[Register] = set()
    early: set[Register] = set()  # read before this iteration has written them
    defined: set[Register] = set()
    for instruction in body:
        read = {*instruction.uses, *(source for source, _ in instruction.copies)}
        if instruction.guard is not None:
            read.add(instruction.guard)
        early |= read - written
        own = {*instruction.defs, *(t for _, t in instruction.copies if t is not None)}
        defined |= own
        if instruction.guard is None:
            written |= own
    return not early & defined


def _compile(context: Context, instruction: Instruction) -> Compiled:
    modifiers = Modifiers(instruction)
    function = _ops.OPCODES.get(instruction.opcode)
    if function is None:
        raise modifiers.unknown()
    compiled = function(context, instruction, modifiers)
    modifiers.finish()
    return compiled


def _guarded(compiled: Compiled, instruction: Instruction) -> Run | None:
    """Add the `@p` guard of an instruction; control instructions evaluate theirs themselves."""
    run, guard = compiled.run, instruction.guard
    if run is None or guard is None:
        return run
    inner: Run = run
    negated, whole = instruction.guard_negated, compiled.whole_rows

    def guarded(c: Cohort) -> None:
        active = guard_mask(c, guard, negated)
        if active is None:
            return inner(c)
        some = active.any(axis=1)
        if not any_of(some):
            return None
        if whole:
            torn = some & (active != c.active()).any(axis=1)
            if any_of(torn):
                c.machine.fail(
                    DivergenceError,
                    "expected the guard of an .aligned instruction to be the same in all lanes "
                    "of the warp, but it differs",
                    c,
                    torn[:, None] & active,
                )
            return inner(c.keep(some))
        if all_of(some):
            return inner(c.masked(active))
        return inner(Cohort(c.machine, c.rows[some], active[some]))

    return guarded


def guard_mask(c: Cohort, guard: Register, negated: bool) -> Array | None:
    """Return the active lanes for which a guard holds; None if these are all active lanes of the
    cohort."""
    value = read_raw(guard, c)
    if negated:
        value = ~value
    if c.mask is None:
        return None if all_of(value) else value.copy()
    active = value & c.mask
    return None if bool((active == c.mask).all()) else active


def _lay_out_local(kernel: Kernel) -> int:
    end = 0
    for variable in kernel.variables:
        if variable.space == "local":
            variable.address = -(-end // variable.align) * variable.align
            end = variable.address + variable.bytes
    return end
