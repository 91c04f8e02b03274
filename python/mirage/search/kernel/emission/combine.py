"""The program of a combine kernel: the part of a derivation above its sums over the grid."""

from __future__ import annotations

from dataclasses import dataclass, field

from mirage.search.algebra.atoms import InAtom
from mirage.search.algebra.axes import Dims
from mirage.search.kernel.derivations.derive import Derivations, Goal
from mirage.search.kernel.derivations.moves import Edge, EmitError, Load
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import Op, Reshape, TensorType, Value


@dataclass
class CombineProgram:
    """Writes the positional program of the part above a derivation's grid sums.

    Every value has one dimension for the parts and one for each axis of the output, size 1 where
    it does not depend on it.
    """

    derivations: Derivations
    choice: dict[Goal, Edge]
    tensors: list[Value]
    extents: dict[str, int]
    parts: int
    axes: list[str]
    wide: DType
    build: Builder = field(default_factory=Builder)
    partials: dict[Goal, Value] = field(default_factory=dict[Goal, Value])
    _memo: dict[Goal, Value] = field(default_factory=dict[Goal, Value])

    def get(self, goal: Goal) -> Value:
        """Return the value of a goal."""
        if goal not in self._memo:
            self._memo[goal] = self.choice[goal].combine(self)
        return self._memo[goal]

    def partial(self, goal: Goal) -> Value:
        """Return the partial results of a goal that the blocks have stored."""
        if goal not in self.partials:
            shape = (self.parts, *self._shape_of(goal))
            name = f"partial{len(self.partials)}"
            self.partials[goal] = Value(TensorType(shape, self.wide), name)
        return self.partials[goal]

    def load(self, edge: Load) -> Value:
        """Return an input, with a dimension for each axis of the output."""
        atom = self.derivations.algebra.atoms[edge.atom]
        assert isinstance(atom, InAtom)
        flat = [a for dim in atom.dims for a in dim]
        shape = self._shape_of(edge.goal)
        x = self.tensors[atom.tensor]
        split = tuple(self.extents[a] for a in flat)
        if x.shape != split:
            x = self.build.reshape(x, split)
        order = tuple(sorted(range(len(flat)), key=lambda i: self.axes.index(flat[i])))
        if order != tuple(range(len(flat))):
            x = self.build.transpose(x, order)
        return self.build.reshape(x, (1, *shape))

    def _shape_of(self, goal: Goal) -> tuple[int, ...]:
        free = {a for a, level in self.derivations.algebra.free(goal[0]) if level == "L"}
        if not free <= set(self.axes):
            raise EmitError(f"expected a value over {self.axes}, got one over {sorted(free)}")
        return tuple(self.extents[a] if a in free else 1 for a in self.axes)


def combine_program(
    derivations: Derivations,
    choice: dict[Goal, Edge],
    target: Goal,
    tensors: list[Value],
    extents: dict[str, int],
    parts: int,
    output: Value,
    dims: Dims,
    wide: DType,
) -> tuple[list[Op], dict[Goal, Value]]:
    """Return the program above the grid sums: its ops (the last one defines ``output``) and its
    partial inputs. Raises :class:`EmitError`.
    """
    axes = [a for dim in dims for a in dim]
    program = CombineProgram(derivations, choice, tensors, extents, parts, axes, wide)
    build = program.build
    x = program.get(target)
    full = (1, *(extents[a] for a in axes))
    if x.shape != full:
        x = build.broadcast(x, full)
    if x.dtype is not output.dtype:
        x = build.cast(x, output.dtype)
    x = build.reshape(x, output.shape)
    last = build.ops.pop()
    build.ops.append(Reshape(last.operands, (output,)))
    return build.ops, program.partials
