"""ld, st, prefetch: all spaces, vectors, cache hints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mirage.emulator.errors import OutOfBoundsError
from mirage.emulator.machine import access_patterns, memory
from mirage.emulator.machine.cohort import Array, Cohort
from mirage.emulator.machine.flags import any_of
from mirage.emulator.machine.operands import (
    address_reader,
    dtype_of,
    items,
    reader,
    writer,
)
from mirage.emulator.machine.releases import Sync
from mirage.emulator.ops.opcodes import Compiled, Context, Modifiers, opcode, operands
from mirage.emulator.ptx.syntax import TYPE_BYTES, Instruction

SPACES = (
    "global", "shared", "shared::cta", "shared::cluster", "local", "const", "param", "param::entry",
)  # fmt: skip
CACHE = ("ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc")
SCOPES = ("cta", "cluster", "gpu", "sys")
TYPES = tuple(
    t
    for t in TYPE_BYTES
    if t[0] in "bsuf" and not t.endswith("x2") and t not in ("bf16", "b128", "f16")
)


def _access(context: Context, modifiers: Modifiers) -> tuple[str, Sync | None]:
    """Return (space, or "generic"; the effect on the order between blocks, if the access is strong)
    from the modifiers of ld and st."""
    order = modifiers.take("acquire", "release", "relaxed", "volatile", "weak", "mmio")
    modifiers.drop("L1::evict_normal", "L1::evict_unchanged")
    sync = sync_of(order, modifiers)
    modifiers.drop_prefix("L1::", "L2::")
    space = modifiers.take(*SPACES) or "generic"
    modifiers.drop(*CACHE)
    space = space.partition("::")[0]
    return space, None if order in (None, "weak") else sync


def sync_of(order: str | None, modifiers: Modifiers) -> Sync:
    """Return the effect of an order between blocks; an order of the scope of a block has none."""
    scopes = [scope for scope in SCOPES if scope in modifiers.rest]
    modifiers.drop(*SCOPES)
    wide = scopes not in (["cta"], ["cluster"])
    return Sync(wide and order in ("acquire", "acq_rel"), wide and order in ("release", "acq_rel"))


@opcode("ld", "ldu")
def compile_ld(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Loads of 1, 2 or 4 elements; each element is sign- or zero-extended to its register."""
    modifiers.drop("unified")
    hint = "L2::cache_hint" in modifiers.rest
    space, sync = _access(context, modifiers)
    kind = modifiers.type(*TYPES)
    lanes = modifiers.take("v2", "v4")
    ops = operands(instruction, 2, 3 if hint else 2)
    targets = items(ops[0])
    if len(targets) != int(lanes[1:] if lanes else 1):
        raise modifiers.unknown()
    size, count = TYPE_BYTES[kind], len(targets)
    writes = [writer(t, kind, instruction) for t in targets]
    address = address_reader(ops[1], instruction)
    total = size * count
    dtype = dtype_of(kind)
    if space == "param":
        return _load_parameter(writes, address, size, dtype)
    if space in ("shared", "generic"):
        context.shared(total)
    if space in ("global", "generic"):
        context.device(total)
    load = _loader(space, total, sync)

    def run(c: Cohort) -> None:
        value = load(c, c.spread(address(c)))
        if count == 1:
            writes[0](c, value.view(dtype))
            return
        parts = np.ascontiguousarray(value).view(dtype).reshape(c.n, 32, count)
        for i, write in enumerate(writes):
            write(c, np.ascontiguousarray(parts[:, :, i]))

    return Compiled(f"load-{space}", run=run, polls=sync is not None)


def _load_parameter(writes: list[Any], address: Any, size: int, dtype: Any) -> Compiled:
    def run(c: Cohort) -> None:
        raw = c.machine.parameters
        base = address(c)
        for i, write in enumerate(writes):
            offset = base + i * size
            if (offset < 0).any() or (offset > len(raw) - size).any():
                c.machine.fail(
                    OutOfBoundsError,
                    f"expected a parameter address below {len(raw)}, got {{address:#x}}",
                    c,
                    None,
                    offset,
                )
            data = raw[offset[..., None] + np.arange(size)]
            write(c, np.ascontiguousarray(data).view(dtype).reshape(offset.shape))

    return Compiled("load-param", run=run)


Load = Callable[[Cohort, Array], Array]
Store = Callable[[Cohort, Array, Array], None]


def _loader(space: str, size: int, sync: Sync | None = None) -> Load:
    if space in ("global", "const"):

        def load_global(c: Cohort, address: Array) -> Array:
            machine = c.machine
            value = machine.memory.load(c, address, size, sync)
            if machine.stats:
                active = int(c.n * 32 if c.mask is None else c.mask.sum())
                touched = access_patterns.sectors(address, c.mask, size, machine.pattern_cache)
                machine.note(global_load_bytes=active * size, global_load_sectors=touched)
            return value

        return load_global
    if space == "shared":

        def load_shared(c: Cohort, address: Array) -> Array:
            machine = c.machine
            value = machine.shared.load(c, address, size)
            if machine.stats:
                count_shared(c, address, size, store=False)
            return value

        return load_shared
    if space == "local":
        return lambda c, address: c.machine.local.load(c, address, size)

    def load_generic(c: Cohort, address: Array) -> Array:
        result = np.zeros((c.n, 32), memory.CARRIER[size])
        for part, sub, lanes in by_window(c, address):
            value = _loader(sub, size, sync)(part, address - WINDOW_BASE[sub])
            result[lanes] = value[lanes]
        return result

    return load_generic


WINDOW_BASE = {
    "global": 0,
    "shared": memory.SHARED_WINDOW,
    "local": memory.LOCAL_WINDOW,
}


def by_window(c: Cohort, address: Array) -> list[tuple[Cohort, str, Array]]:
    """Splits lanes by the space that a generic address falls into."""
    active = c.active()
    found: list[tuple[Cohort, str, Array]] = []
    rest = active
    for space in ("shared", "local"):
        base = WINDOW_BASE[space]
        lanes = active & (address >= base) & (address < base + memory.WINDOW_BYTES)
        if any_of(lanes):
            found.append((c.masked(lanes), space, lanes))
            rest = rest & ~lanes
    if any_of(rest):
        found.append((c.masked(rest), "global", rest))
    return found


def count_shared(c: Cohort, address: Array, size: int, *, store: bool) -> None:
    """Bytes, wavefronts and conflicts of a shared access."""
    machine = c.machine
    offset = address & ((1 << memory.RANK_SHIFT) - 1)
    waves = access_patterns.wavefronts(offset, c.mask, size, machine.pattern_cache)
    least = c.n * max(1, size // 4)
    if c.mask is not None:
        lanes = c.mask.sum(axis=1)
        least = int(np.ceil(lanes * max(size, 4) / 128).sum())
    active = int(c.n * 32 if c.mask is None else c.mask.sum())
    name = "shared_store_bytes" if store else "shared_load_bytes"
    machine.note(
        **{name: active * size},
        shared_wavefronts=waves,
        bank_conflicts=max(0, waves - least),
    )


@opcode("st")
def compile_st(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Stores of 1, 2 or 4 elements."""
    hint = "L2::cache_hint" in modifiers.rest
    space, sync = _access(context, modifiers)
    kind = modifiers.type(*TYPES)
    lanes = modifiers.take("v2", "v4")
    ops = operands(instruction, 2, 3 if hint else 2)
    sources = items(ops[1])
    if len(sources) != int(lanes[1:] if lanes else 1) or space in ("param", "const"):
        raise modifiers.unknown()
    size, count = TYPE_BYTES[kind], len(sources)
    raw = kind if kind in ("f32", "f64") else f"b{8 * size}"
    reads = [reader(s, raw, instruction) for s in sources]
    address = address_reader(ops[0], instruction)
    total = size * count
    if space in ("shared", "generic"):
        context.shared(total)
    if space in ("global", "generic"):
        context.device(total)
    store = _storer(space, total, sync)
    carrier = memory.CARRIER[total]
    unsigned: Any = f"u{size}"

    def run(c: Cohort) -> None:
        shape = (c.n, 32)
        if count == 1:
            value = np.broadcast_to(reads[0](c), shape)
            value = np.ascontiguousarray(value).view(carrier)
        else:
            parts = np.empty((c.n, 32, count), unsigned)
            for i, read in enumerate(reads):
                parts[:, :, i] = read(c).view(unsigned)
            value = parts.view(carrier)[:, :, 0]
        c.machine.events += 1
        store(c, np.broadcast_to(address(c), shape), value)

    return Compiled(f"store-{space}", run=run)


def _storer(space: str, size: int, sync: Sync | None = None) -> Store:
    if space == "global":

        def store_global(c: Cohort, address: Array, value: Array) -> None:
            machine = c.machine
            machine.memory.store(c, address, value, size, sync)
            if machine.stats:
                active = int(c.n * 32 if c.mask is None else c.mask.sum())
                touched = access_patterns.sectors(address, c.mask, size, machine.pattern_cache)
                machine.note(global_store_bytes=active * size, global_store_sectors=touched)

        return store_global
    if space == "shared":

        def store_shared(c: Cohort, address: Array, value: Array) -> None:
            c.machine.shared.store(c, address, value, size)
            if c.machine.stats:
                count_shared(c, address, size, store=True)

        return store_shared
    if space == "local":
        return lambda c, address, value: c.machine.local.store(c, address, value, size)

    def store_generic(c: Cohort, address: Array, value: Array) -> None:
        for part, sub, _ in by_window(c, address):
            _storer(sub, size, sync)(part, address - WINDOW_BASE[sub], value)

    return store_generic


@opcode("prefetch", "prefetchu", "applypriority", "discard", "createpolicy")
def compile_prefetch(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Cache hints change nothing; createpolicy's result is an opaque number."""
    modifiers.rest.clear()
    if instruction.opcode == "createpolicy":
        write = writer(instruction.operands[0], "b64", instruction)
        return Compiled("other", run=lambda c: write(c, np.zeros((1, 1), np.uint64)))
    return Compiled("other", run=lambda c: None)
