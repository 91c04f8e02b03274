"""The program of a combine kernel: what a derivation does above its sums over the grid."""

from __future__ import annotations

from mirage.search.bodies import EmitError
from mirage.search.derive import Derivations, Edge, Goal
from mirage.semantics.axes import Dims
from mirage.semantics.builder import Builder
from mirage.semantics.normal_form import InAtom
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Op, Reshape, TensorType, Value


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
    """The positional program above the grid sums: its ops (the last one defines ``output``) and
    its partial inputs.

    Every value has one dimension for the parts and one for each axis of the output, size 1 where
    it does not depend on it.
    """
    build = Builder()
    algebra = derivations.algebra
    axes = [a for dim in dims for a in dim]
    partials: dict[Goal, Value] = {}
    memo: dict[Goal, Value] = {}

    def shape_of(goal: Goal) -> tuple[int, ...]:
        free = {a for a, level in algebra.free(goal[0]) if level == "L"}
        if not free <= set(axes):
            raise EmitError(f"expected a value over {axes}, got one over {sorted(free)}")
        return tuple(extents[a] if a in free else 1 for a in axes)

    def load(edge: Edge) -> Value:
        atom = algebra.atoms[edge.atom]
        assert isinstance(atom, InAtom)
        flat = [a for dim in atom.dims for a in dim]
        shape_of(edge.goal)
        x = tensors[atom.tensor]
        split = tuple(extents[a] for a in flat)
        if x.shape != split:
            x = build.reshape(x, split)
        order = tuple(sorted(range(len(flat)), key=lambda i: axes.index(flat[i])))
        if order != tuple(range(len(flat))):
            x = build.transpose(x, order)
        return build.reshape(x, (1, *shape_of(edge.goal)))

    def get(goal: Goal) -> Value:
        if goal not in memo:
            memo[goal] = compute(goal)
        return memo[goal]

    def compute(goal: Goal) -> Value:
        edge = choice[goal]
        match edge.kind:
            case "gather":
                child = edge.children[0]
                if child not in partials:
                    shape = (parts, *shape_of(child))
                    partials[child] = Value(TensorType(shape, wide), f"partial{len(partials)}")
                assert isinstance(edge.fn, ReduceFn)
                return build.reduce(edge.fn, partials[child], (0,))
            case "load":
                return load(edge)
            case "reduce" if edge.axis in axes:
                assert isinstance(edge.fn, ReduceFn)
                return build.reduce(edge.fn, get(edge.children[0]), (1 + axes.index(edge.axis),))
            case "const":
                return build.constant(edge.value)
            case "scale":
                return build.binary(BinaryFn.MUL, get(edge.children[0]), build.constant(edge.value))
            case "unary":
                assert isinstance(edge.fn, UnaryFn)
                return build.unary(edge.fn, get(edge.children[0]))
            case "binary":
                assert isinstance(edge.fn, BinaryFn)
                return build.binary(edge.fn, get(edge.children[0]), get(edge.children[1]))
            case _:
                raise EmitError(f"expected an op of a combine kernel, got {edge.kind}")

    x = get(target)
    full = (1, *(extents[a] for a in axes))
    if x.shape != full:
        x = build.broadcast(x, full)
    if x.dtype is not output.dtype:
        x = build.cast(x, output.dtype)
    x = build.reshape(x, output.shape)
    last = build.ops.pop()
    build.ops.append(Reshape(last.operands, (output,)))
    return build.ops, partials
