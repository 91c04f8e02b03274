"""Floating-point arithmetic, approximations, comparisons."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mirage.emulator.machine.cohort import Array
from mirage.emulator.machine.flags import any_of
from mirage.emulator.machine.operands import reader, writer
from mirage.emulator.ops import numerics
from mirage.emulator.ops.opcodes import Compiled, Context, Modifiers, opcode, operands, simple
from mirage.emulator.ptx.syntax import Instruction

FLOATS = ("f16", "f16x2", "bf16", "bf16x2", "f32", "f64")


def is_float(kind: str) -> bool:
    """Return whether arithmetic on the type is floating point."""
    return kind in FLOATS


def _base(kind: str) -> str:
    return kind.removesuffix("x2")


def _finish(kind: str, *, ftz: bool, sat: bool, relu: bool) -> Callable[[Array], Array]:
    """Flushes, clamps and canonicalises a result."""
    base = _base(kind)

    def finish(value: Array) -> Array:
        if ftz and base == "f32":
            value = numerics.flush(value)
        if sat:
            value = numerics.saturate(value)
        if relu:
            value = np.where(
                value > 0, value, np.where(np.isnan(value), value, np.zeros((), value.dtype))
            )
        if base == "f32":
            value = numerics.canonical_nan(value)
        elif base == "f16":
            nan = np.isnan(value)
            if any_of(nan):
                value = np.where(nan, np.uint16(0x7FFF), value.view(np.uint16)).view(np.float16)
        return value

    return finish


def _add(kind: str, rounding: str, sign: int) -> Callable[[Array, Array], Array]:
    base = _base(kind)

    def compute(a: Array, b: Array) -> Array:
        b = b if sign > 0 else -b
        if rounding == "rn" and base in ("f32", "f64", "f16"):
            return a + b
        if base == "f64":
            return numerics.exact_f64("add", a, b, rounding)
        return numerics.directed_sum(a.astype(np.float64), b.astype(np.float64), base, rounding)

    return compute


def _mul(kind: str, rounding: str) -> Callable[[Array, Array], Array]:
    base = _base(kind)

    def compute(a: Array, b: Array) -> Array:
        if rounding == "rn" and base in ("f32", "f64", "f16"):
            return a * b
        if base == "f64":
            return numerics.exact_f64("mul", a, b, rounding)
        return numerics.round_to(a.astype(np.float64) * b.astype(np.float64), base, rounding)

    return compute


def compile_float(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """add, sub, mul, div, fma, mad, min, max, neg, abs on floats."""
    name = instruction.opcode
    kind = modifiers.type(*FLOATS)
    base = _base(kind)
    ftz = modifiers.take("ftz") is not None
    sat = modifiers.take("sat") is not None
    relu = modifiers.take("relu") is not None
    rounding = modifiers.take(*numerics.ROUNDINGS) or "rn"
    flush: Callable[[Array], Array] = numerics.flush if ftz and base == "f32" else lambda a: a
    finish = _finish(kind, ftz=ftz, sat=sat, relu=relu)
    if name in ("neg", "abs"):
        unary = np.negative if name == "neg" else np.abs
        return simple(instruction, "float", kind, (kind,), lambda a: flush(unary(a)))
    if name in ("add", "sub"):
        add = _add(kind, rounding, 1 if name == "add" else -1)
        return simple(
            instruction, "float", kind, (kind, kind), lambda a, b: finish(add(flush(a), flush(b)))
        )
    if name == "mul":
        mul = _mul(kind, rounding)
        return simple(
            instruction, "float", kind, (kind, kind), lambda a, b: finish(mul(flush(a), flush(b)))
        )
    if name in ("fma", "mad"):
        return simple(
            instruction,
            "float",
            kind,
            (kind,) * 3,
            lambda a, b, d: finish(numerics.fma(flush(a), flush(b), flush(d), base, rounding)),
        )
    if name == "div":
        approximate = modifiers.take("approx", "full") is not None
        if base not in ("f32", "f64") or (rounding != "rn" and not approximate):
            raise modifiers.unknown()
        return simple(
            instruction, "float", kind, (kind, kind), lambda a, b: finish(flush(a) / flush(b))
        )
    if name in ("min", "max"):
        nan = modifiers.take("NaN") is not None
        modifiers.drop("xorsign", "abs") if "xorsign" not in modifiers.rest else None
        largest = name == "max"

        def limit(*args: Array) -> Array:
            value = flush(args[0])
            for other in args[1:]:
                value = numerics.minimum(value, flush(other), nan=nan, largest=largest)
            return finish(value)

        return simple(instruction, "float", kind, (kind,) * (len(instruction.operands) - 1), limit)
    raise modifiers.unknown()


def _rcp(a: Array) -> Array:
    return 1.0 / a


def _rsqrt(a: Array) -> Array:
    return 1.0 / np.sqrt(a)


_UNARY: dict[str, Callable[[Array], Array]] = {
    "rcp": _rcp,
    "rsqrt": _rsqrt,
    "sqrt": np.sqrt,
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
}


@opcode(*_UNARY)
def compile_unary(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Special functions: .approx in f32, and tanh and ex2 also in half precision; rcp, rsqrt and
    sqrt with .rn."""
    name = instruction.opcode
    half = ("f16", "f16x2", "bf16", "bf16x2") if name in ("tanh", "ex2") else ()
    kind = modifiers.type("f32", *half, *(("f64",) if name in ("rcp", "rsqrt", "sqrt") else ()))
    base = _base(kind)
    ftz = modifiers.take("ftz") is not None
    approximate = modifiers.take("approx") is not None
    rounding = modifiers.take(*numerics.ROUNDINGS)
    if not approximate and (rounding != "rn" or name not in ("rcp", "sqrt")):
        raise modifiers.unknown()
    function = _UNARY[name]
    finish = _finish(kind, ftz=ftz, sat=False, relu=False)
    flush: Callable[[Array], Array] = numerics.flush if ftz and base == "f32" else lambda a: a

    def compute(a: Array) -> Array:
        a = flush(a)
        if base == "f64":
            return function(a)
        if not approximate:
            # float64 has more than twice the bits, so rounding it once more is right.
            return finish(function(a.astype(np.float64)).astype(np.float32))
        wide = function(a.astype(np.float64))
        return finish(numerics.round_to(wide, base))

    return simple(instruction, "special-function", kind, (kind,), compute)


@opcode("copysign")
def compile_copysign(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Sign of a, magnitude of b."""
    kind = modifiers.type("f32", "f64")
    return simple(instruction, "float", kind, (kind, kind), lambda a, b: np.copysign(b, a))


@opcode("testp")
def compile_testp(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Floating-point class tests."""
    kind = modifiers.type("f32", "f64")
    test = modifiers.take("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    if test is None:
        raise modifiers.unknown()
    tiny = 2.0**-126 if kind == "f32" else 2.0**-1022
    tests: dict[str, Callable[[Array], Any]] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda a: ~np.isnan(a),
        "notanumber": np.isnan,
        # Zeros too: "as a special case, positive and negative zero are considered normal numbers".
        "normal": lambda a: np.isfinite(a) & ((np.abs(a) >= tiny) | (a == 0)),
        "subnormal": lambda a: (np.abs(a) < tiny) & (a != 0),
    }
    return simple(instruction, "compare", "pred", (kind,), tests[test])


_COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}


def comparison(name: str, kind: str) -> Callable[[Array, Array], Array]:
    """Ordered comparisons are false for NaN; the ...u ones, and num/nan, look at it."""
    if name in _COMPARE:
        plain = _COMPARE[name]
        if name == "ne" and is_float(kind):
            return lambda a, b: (a != b) & ~np.isnan(a) & ~np.isnan(b)
        return plain
    if name == "num":
        return lambda a, b: ~np.isnan(a) & ~np.isnan(b)
    if name == "nan":
        return lambda a, b: np.isnan(a) | np.isnan(b)
    ordered = _COMPARE[name.removesuffix("u")]
    return lambda a, b: ordered(a, b) | np.isnan(a) | np.isnan(b)


COMPARISONS = (*_COMPARE, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")


@opcode("setp", "set")
def compile_setp(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Comparison, optionally combined with a predicate: setp.lt.and.s32 p|q, a, b, c."""
    from mirage.emulator.machine.operands import split_pair

    kind = modifiers.type()
    result = "pred"
    if instruction.opcode == "set":
        result = modifiers.type("u32", "s32", "f32", "f16", "f16x2", "bf16", "bf16x2")
    ftz = modifiers.take("ftz") is not None
    combine = modifiers.take("and", "or", "xor")
    name = modifiers.take(*COMPARISONS)
    if name is None:
        raise modifiers.unknown()
    if kind.startswith("b") and not is_float(kind) and name not in ("eq", "ne"):
        raise modifiers.unknown()
    ops = operands(instruction, 4 if combine else 3)
    a, b = reader(ops[1], kind, instruction), reader(ops[2], kind, instruction)
    compare = comparison(name, kind)
    flush: Callable[[Array], Array] = numerics.flush if ftz and kind == "f32" else lambda x: x
    third = reader(ops[3], "pred", instruction) if combine else None
    join: Any = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}.get(
        combine or ""
    )
    first, second = split_pair(ops[0])
    if kind.endswith("x2"):
        if result != "pred":
            raise modifiers.unknown()
        return _compare_packed(instruction, first, second, a, b, compare, third, join)
    if result == "pred":
        write = writer(first, "pred", instruction)
        write_second = writer(second, "pred", instruction) if second is not None else None

        def run(c: Any) -> None:
            value = np.asarray(compare(flush(a(c)), flush(b(c))))
            if third is None:
                write(c, value)
                if write_second is not None:
                    write_second(c, ~value)
                return
            other = third(c)
            if write_second is not None:
                write_second(c, join(~value, other))
            write(c, join(value, other))

        return Compiled("compare", run=run)
    write = writer(first, result, instruction)
    dtype = {"u32": np.uint32, "s32": np.int32, "f16": np.float16}.get(result, np.float32)
    true = (
        dtype(1)
        if result.endswith(("f32", "f16"))
        else dtype(-1 if result == "s32" else 0xFFFFFFFF)
    )

    def run_set(c: Any) -> None:
        value = np.asarray(compare(flush(a(c)), flush(b(c))))
        if third is not None:
            value = join(value, third(c))
        write(c, np.where(value, true, dtype(0)))

    return Compiled("compare", run=run_set)


def _compare_packed(
    instruction: Instruction,
    first: Any,
    second: Any,
    a: Any,
    b: Any,
    compare: Any,
    third: Any,
    join: Any,
) -> Compiled:
    """setp on f16x2/bf16x2: p is the low half's result, q the high half's."""
    write = writer(first, "pred", instruction)
    write_second = writer(second, "pred", instruction) if second is not None else None

    def run(c: Any) -> None:
        value = np.asarray(compare(a(c), b(c)))
        low, high = value[:, 0::2], value[:, 1::2]
        if third is not None:
            other = third(c)
            low, high = join(low, other), join(high, other)
        write(c, np.array(low))
        if write_second is not None:
            write_second(c, np.array(high))

    return Compiled("compare", run=run)
