"""The results of a verification."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any


class Kind(enum.Enum):
    """The certainty that a candidate computes the same function of real numbers as its
    reference."""

    PROVED = "proved"  # equal, by an argument without chance
    PROBABLE = "probable"  # equal except with the probability that the bound gives
    REFUTED = "refuted"  # different: the witness shows where
    UNKNOWN = "unknown"  # neither shown


@dataclass(frozen=True)
class Witness:
    """An element at which two programs differ."""

    seed: int
    output: int
    element: tuple[int, ...]
    expected: float
    actual: float
    inputs: str

    def __str__(self) -> str:
        return (
            f"output {self.output}, element {list(self.element)}: "
            f"expected {self.expected:.9g}, got {self.actual:.9g} "
            f"({self.inputs}, seed {self.seed})"
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "seed": str(self.seed),
            "output": self.output,
            "element": list(self.element),
            "expected": _number(self.expected),
            "actual": _number(self.actual),
            "inputs": self.inputs,
        }


@dataclass(frozen=True)
class Evidence:
    """One test or argument: its name, whether it holds, a sentence, and its figures."""

    name: str
    holds: bool | None
    text: str
    figures: dict[str, Any] = field(default_factory=dict[str, Any])

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"name": self.name, "holds": self.holds, "text": self.text, **self.figures}


@dataclass(frozen=True)
class FreeExtent:
    """A length that a proof leaves open: its name, its value in the given programs, and the
    smallest value for which the proof holds.
    """

    name: str
    given: int
    at_least: int


@dataclass(frozen=True)
class HoldsFor:
    """The programs that a proof covers: those of the same ops, maps and loops with other lengths.

    ``inputs`` has the sizes of each input, ``axes`` the extent of each grid and loop axis of the
    candidate (``launch.axis``), written with the names of free lengths (``4*a``, ``a*b + c``);
    tiles and the extents of masks follow. ``constants`` is ``given``, or ``any`` if each constant
    except 0, 1, 2 and 1/2 may be any number, the same in both programs. ``sizes`` lists constants
    that change with a size because they equal it, or one over it.
    """

    free: tuple[FreeExtent, ...]
    inputs: tuple[tuple[str, ...], ...]
    axes: tuple[tuple[str, str], ...]
    constants: str
    sizes: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        shapes = ", ".join("[" + ", ".join(shape) + "]" for shape in self.inputs)
        free = ", ".join(f"{f.name} >= {f.at_least}" for f in self.free)
        parts = [f"inputs of {shapes} with {free}"]
        parts.extend(f"{constant} standing for the size {size}" for constant, size in self.sizes)
        parts.append("any constants" if self.constants == "any" else "these constants")
        return ", ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "free": {f.name: {"given": f.given, "at_least": f.at_least} for f in self.free},
            "inputs": [list(shape) for shape in self.inputs],
            "axes": dict(self.axes),
            "constants": self.constants,
            "sizes": dict(self.sizes),
        }


@dataclass(frozen=True)
class Verdict:
    """The result of :func:`mirage.verify.verify`.

    ``bound_log2`` (only with PROBABLE) is the base-2 logarithm of the chance that a wrong candidate
    passes. ``numerics_hold`` says whether the candidate's rounding error is at most twice the
    reference's (``None``: not measured), ``defined`` says whether it is defined wherever the
    reference is (``None``: not examined). ``permutation[i]`` is the candidate's output that equals
    output ``i`` of the reference. ``holds_for`` (PROVED only) says for which other sizes the proof
    holds too; ``None``: only for the given sizes, maps and constants. ``unshown`` are the positions
    of the candidate's ops that prevent a proof, if it was verified kernel by kernel; ``rough`` is
    the position of the first op whose rounding errors are too large, if that is known. ``late``
    says that the time ran out before anything was decided.
    """

    kind: Kind
    bound_log2: float | None
    evidence: tuple[Evidence, ...]
    seed: int
    witness: Witness | None = None
    numerics_hold: bool | None = None
    permutation: tuple[int, ...] | None = None
    holds_for: HoldsFor | None = None
    unshown: tuple[int, ...] = ()
    rough: tuple[int, ...] = ()
    late: bool = False
    defined: bool | None = None

    @property
    def equivalent(self) -> bool:
        """Whether the candidate may replace its reference as a function of real numbers."""
        return self.kind in (Kind.PROVED, Kind.PROBABLE)

    @property
    def accepted(self) -> bool:
        """Whether the candidate may also replace its reference in floating point."""
        fine = self.numerics_hold is not False and self.defined is not False
        return self.equivalent and fine

    def __str__(self) -> str:
        lines = [self.kind.value]
        if self.kind is Kind.PROVED:
            lines[0] += f" ({'for other sizes too' if self.holds_for else 'for these sizes'})"
        if self.kind is Kind.PROBABLE:
            lines[0] += f" (error at most 2^{self.bound_log2:.1f})"
        if self.equivalent and self.defined is False:
            lines[0] += ", but not accepted: it is not defined everywhere where the reference is"
        elif self.equivalent and not self.accepted:
            lines[0] += ", but not accepted: its rounding errors are too large"
        if self.witness:
            lines.append(f"  witness: {self.witness}")
        marks = {True: "holds", False: "fails", None: "does not apply"}
        lines.extend(f"  {e.name}: {marks[e.holds]}: {e.text}" for e in self.evidence)
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return plain data, for reports and for the IR."""
        return {
            "kind": self.kind.value,
            "accepted": self.accepted,
            "bound_log2": self.bound_log2,
            "numerics_hold": self.numerics_hold,
            "defined": self.defined,
            "seed": str(self.seed),
            "permutation": None if self.permutation is None else list(self.permutation),
            "unshown": list(self.unshown),
            "rough": list(self.rough),
            "late": self.late,
            "holds_for": None if self.holds_for is None else self.holds_for.to_json(),
            "witness": None if self.witness is None else self.witness.to_json(),
            "evidence": [e.to_json() for e in self.evidence],
        }


def _number(x: float) -> float | str:
    """Return a number as JSON can hold it: JSON has no NaN and no infinities."""
    return x if abs(x) < float("inf") else str(x)
