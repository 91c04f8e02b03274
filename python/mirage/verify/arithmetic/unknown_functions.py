"""Functions of which nothing is known except that equal arguments give equal results.

A proof about programs that contain them holds for all functions. Users' programs do not contain
them: the verifier writes them in place of ops that it generalises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mirage.semantics.builder import Builder
from mirage.semantics.domain import Domain, Planes
from mirage.semantics.ops.kinds import Elementwise, Zeros
from mirage.semantics.ops.op import TensorType, UnknownOp, Value, called

OF_EACH, OF_ALL = "of_each", "of_all"
UNKNOWN = (OF_EACH, OF_ALL)
"""The names of all unknown functions."""


def unknown(b: Builder, name: str, x: Value) -> Value:
    """Append the function ``name`` of each element of ``x``."""
    op = UnknownFunction((x,), (Value(x.type),), name)
    b.ops.append(op)
    return op.result


@dataclass(frozen=True, eq=False)
class UnknownFunction(Elementwise):
    """The unknown function ``name`` of each element."""

    name: str

    scalar: ClassVar[bool] = True
    unknown: ClassVar[bool] = True

    def result_type(self, b: Builder) -> TensorType:
        return self.operands[0].type

    @property
    def work(self) -> tuple[float, float]:
        return 0.0, 0.0

    @property
    def zeros(self) -> Zeros:
        return Zeros.NEVER

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        found = domain.unknown(self.name, xs[0])
        if found is None:
            raise UnknownOp(
                f"expected exact arithmetic, got numbers for the function {self.name!r}"
            )
        return found

    def written(self, xs: Sequence[str]) -> str:
        return called(self.name, xs)
