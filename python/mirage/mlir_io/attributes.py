"""Attributes: from MLIR to plain values and back, one codec for each kind."""

from __future__ import annotations

import enum
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from mirage import ir
from mirage.mlir_io.data import GraphIOError
from mirage.semantics.alternatives import Holds, VerdictNote
from mirage.semantics.integer_formula import Formula, read_step
from mirage.semantics.scalar import BinaryFn, CumulateFn, ReduceFn, UnaryFn
from mirage.semantics.ugraph import TileMap


class Codec(ABC):
    """One kind of attribute."""

    @abstractmethod
    def read(self, attribute: ir.Attribute) -> Any:
        """Return the plain value."""

    @abstractmethod
    def write(self, value: Any) -> ir.Attribute:
        """Return the attribute, in the current context."""


@dataclass(frozen=True)
class EnumCodec(Codec):
    """A scalar function: an integer attribute whose value counts the members in order of their
    definition.
    """

    members: tuple[enum.Enum, ...]

    def read(self, attribute: ir.Attribute) -> enum.Enum:
        return self.members[ir.IntegerAttr(attribute).value]

    def write(self, value: enum.Enum) -> ir.Attribute:
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(32), self.members.index(value))


class IntegerCodec(Codec):
    """A 64-bit integer."""

    def read(self, attribute: ir.Attribute) -> int:
        return ir.IntegerAttr(attribute).value

    def write(self, value: int) -> ir.Attribute:
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)


class FlagCodec(Codec):
    """A unit attribute, which is present or absent."""

    def read(self, attribute: ir.Attribute) -> bool:
        return isinstance(attribute, ir.UnitAttr)

    def write(self, value: bool) -> ir.Attribute:
        return ir.UnitAttr.get()


class FloatCodec(Codec):
    """A double."""

    def read(self, attribute: ir.Attribute) -> float:
        return ir.FloatAttr(attribute).value

    def write(self, value: float) -> ir.Attribute:
        return ir.FloatAttr.get(ir.F64Type.get(), value)


EXACT = "exact"
"""The attribute of a constant whose number differs from the one as which its double is read."""


SEEN_AS = "seen_as"
"""The attribute of a call that sees operands in types other than their own."""


def fraction(text: str) -> Fraction | None:
    """Parse ``1/3`` or ``5`` as a number; return None for anything else."""
    return Fraction(text) if re.fullmatch(r"-?\d+(/[1-9]\d*)?", text) else None


class IntegersCodec(Codec):
    """A list of 64-bit integers."""

    def read(self, attribute: ir.Attribute) -> tuple[int, ...]:
        return tuple(ir.DenseI64ArrayAttr(attribute))

    def write(self, value: tuple[int, ...]) -> ir.Attribute:
        return ir.DenseI64ArrayAttr.get(list(value))


class NamesCodec(Codec):
    """A list of strings."""

    def read(self, attribute: ir.Attribute) -> tuple[str, ...]:
        return tuple(ir.StringAttr(a).value for a in ir.ArrayAttr(attribute))

    def write(self, value: tuple[str, ...]) -> ir.Attribute:
        return ir.ArrayAttr.get([ir.StringAttr.get(name) for name in value])


class MapCodec(Codec):
    """A map from tensor dimensions to axes."""

    def read(self, attribute: ir.Attribute) -> TileMap:
        return tuple(NAMES.read(a) for a in ir.ArrayAttr(attribute))

    def write(self, value: TileMap) -> ir.Attribute:
        return ir.ArrayAttr.get([NAMES.write(names) for names in value])


class FormulaCodec(Codec):
    """The steps of a formula of integers, as texts."""

    def read(self, attribute: ir.Attribute) -> Formula:
        return Formula(tuple(map(read_step, NAMES.read(attribute))))

    def write(self, value: Formula) -> ir.Attribute:
        return NAMES.write(tuple(map(str, value.steps)))


UNARY = EnumCodec(tuple(UnaryFn))
BINARY = EnumCodec(tuple(BinaryFn))
REDUCE = EnumCodec(tuple(ReduceFn))
CUMULATE = EnumCodec(tuple(CumulateFn))
INTEGER = IntegerCodec()
FLAG = FlagCodec()
FLOAT = FloatCodec()
INTEGERS = IntegersCodec()
NAMES = NamesCodec()
MAP = MapCodec()
FORMULA = FormulaCodec()


def read_plain(attribute: ir.Attribute, op: ir.Operation) -> object:
    """Return the value of an `external` argument: none (unit), bool, integer, float, string, or a
    tuple of them.
    """
    if isinstance(attribute, ir.UnitAttr):
        return None
    if isinstance(attribute, ir.BoolAttr):
        return attribute.value
    if isinstance(attribute, (ir.IntegerAttr, ir.FloatAttr, ir.StringAttr)):
        return attribute.value
    if isinstance(attribute, ir.ArrayAttr):
        return tuple(read_plain(a, op) for a in attribute)
    raise GraphIOError(f"expected a plain value as argument, got {attribute}", op)


def write_plain(value: object) -> ir.Attribute:
    """Return the attribute that :func:`read_plain` reads as ``value``."""
    if value is None:
        return ir.UnitAttr.get()
    if isinstance(value, bool):
        return ir.BoolAttr.get(value)
    if isinstance(value, int):
        return INTEGER.write(value)
    if isinstance(value, float):
        return FLOAT.write(value)
    if isinstance(value, str):
        return ir.StringAttr.get(value)
    if isinstance(value, tuple):
        return ir.ArrayAttr.get([write_plain(v) for v in value])  # pyright: ignore[reportUnknownVariableType]
    raise GraphIOError(f"expected a plain value as argument, got {value!r}")


_VERDICTS = ("unknown", "refuted", "probable", "proved")


def read_verdict(attribute: ir.Attribute) -> VerdictNote:
    """Read a `#kernel.verdict`."""
    from mirage.dialects import kernel

    verdict = kernel.VerdictAttr(attribute)
    return VerdictNote(_VERDICTS[verdict.kind], verdict.bound_log2, verdict.evidence)


def write_verdict(note: VerdictNote) -> ir.Attribute:
    """Return the attribute that :func:`read_verdict` reads as ``note``."""
    from mirage.dialects import kernel

    return kernel.VerdictAttr.get(_VERDICTS.index(note.kind), note.bound_log2, note.evidence)


FORMS = ("reference", "candidates", "verified", "selected", "scheduled", "thread", "binary")


def read_form(attribute: ir.Attribute) -> str:
    """Read a `#kernel.form`."""
    from mirage.dialects import kernel

    return FORMS[kernel.FormAttr(attribute).value]


_DYNAMIC = re.compile(r"#kernel\.dynamic<bound = (\d+), tensors = \[([\d, ]+)\]>")


def read_dynamic(op: ir.Operation) -> tuple[int, tuple[int, ...]] | None:
    """Return the largest size of an op, and the numbers of its tensors whose rows it determines."""
    if "dynamic" not in op.attributes:
        return None
    text = str(op.attributes["dynamic"])
    match = _DYNAMIC.fullmatch(text)
    if match is None:
        raise GraphIOError(f"expected a #kernel.dynamic, got {text}", op)
    return int(match[1]), tuple(int(n) for n in match[2].split(","))


def write_dynamic(bound: int, tensors: Sequence[int]) -> ir.Attribute:
    """Return the attribute of a graph whose largest size is ``bound``, which determines the rows of
    some of its inputs."""
    numbers = ", ".join(map(str, tensors))
    return ir.Attribute.parse(f"#kernel.dynamic<bound = {bound}, tensors = [{numbers}]>")


def write_form(form: str) -> ir.Attribute:
    """Return the attribute that :func:`read_form` reads as ``form``."""
    from mirage.dialects import kernel

    return kernel.FormAttr.get(FORMS.index(form))


def read_holds(attribute: ir.Attribute) -> Holds:
    """Read the hints of one candidate: the decomposition, then triples."""
    stable, *numbers = INTEGERS.read(attribute)
    places = zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True)
    return Holds(bool(stable), tuple(places))


def write_holds(holds: Holds) -> ir.Attribute:
    """Return the attribute that :func:`read_holds` reads."""
    return INTEGERS.write((int(holds.stable), *(n for place in holds.places for n in place)))
