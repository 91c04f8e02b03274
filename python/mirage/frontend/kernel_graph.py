"""The builder of kernel graphs: programs written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mirage.errors import SourceLocation
from mirage.frontend.dtypes import as_dtype
from mirage.frontend.errors import GraphShapeError, GraphTypeError, InvalidGraphError
from mirage.frontend.handles import Tensor
from mirage.frontend.location import user_location
from mirage.frontend.ops import Emit, GraphOps
from mirage.frontend.program import Program, check_inputs_used
from mirage.semantics.builder import Builder
from mirage.semantics.indexing.strides import dense
from mirage.semantics.positions import gather, iota
from mirage.semantics.scalar import DType
from mirage.semantics.substitute import without_dead_ops
from mirage.semantics.ugraph import KernelGraph, Op, TensorType, Value, launches

if TYPE_CHECKING:
    from mirage.frontend.block_graph import BlockGraphBuilder
    from mirage.pipeline.result import Optimized


class GraphBuilder(GraphOps[Tensor]):
    """A tensor program under construction; see :func:`new_kernel_graph`."""

    _handle = Tensor

    def __init__(self, name: str = "main") -> None:
        self.name = name
        self._builder = Builder()
        self._inputs: list[Tensor] = []
        self._outputs: list[Tensor] = []
        self._locations: dict[Op, SourceLocation] = {}
        self._values: dict[Value, SourceLocation | None] = {}

    def new_input(
        self,
        dims: Sequence[int],
        dtype: object = DType.F16,
        *,
        name: str = "",
        strides: Sequence[int] | None = None,
    ) -> Tensor:
        """Add an input tensor of shape ``dims``, dense and row-major (``strides``, in elements, may
        only repeat that).
        """
        what = "new_input"
        shape = self._integers(what, dims)
        if any(n < 1 for n in shape):
            raise GraphShapeError(
                f"{what}: expected positive dimensions, got {shape}", user_location()
            )
        expected = dense(shape)
        if strides is not None and self._integers(what, strides) != expected:
            raise GraphShapeError(
                f"{what}: expected row-major strides {expected}, got {tuple(strides)}; pass the "
                "stored shape and transpose",
                user_location(),
            )
        taken = {t.value.name for t in self._inputs}
        if name and (name in taken or not name.isidentifier()):
            raise InvalidGraphError(
                f"{what}: expected a new identifier as name, got {name!r}", user_location()
            )
        number = len(self._inputs)
        while not name or name in taken:
            name, number = f"x{number}", number + 1
        tensor = Tensor(self, Value(TensorType(shape, as_dtype(dtype)), name), user_location())
        self._inputs.append(tensor)
        self._values[tensor.value] = tensor.location
        return tensor

    def mark_output(self, *tensors: Tensor) -> None:
        """Make tensors results of the program, in the order of the calls."""
        for tensor in tensors:
            self._outputs.append(self._own("mark_output", tensor))

    def _append(self, what: str, operands: tuple[Tensor, ...], emit: Emit) -> Tensor:
        start = len(self._builder.ops)
        try:
            value = emit(self._builder, tuple(x.value for x in operands))
        except BaseException:
            del self._builder.ops[start:]
            raise
        location = user_location()
        for op in self._builder.ops[start:]:
            self._record(op, location)
        return Tensor(self, value, location)

    def _record(self, op: Op, location: SourceLocation | None) -> None:
        if location is not None:
            self._locations[op] = location
        for value in op.results:
            self._values[value] = location

    # ---- composites

    def softmax(self, x: Tensor, dim: int = -1) -> Tensor:
        """Return the softmax of ``x`` along ``dim``."""
        (d,) = self._integers("softmax", dim)
        return self._apply("softmax", [x], lambda b, v: b.softmax(v[0], d))

    def rms_norm(
        self,
        x: Tensor,
        gain: Tensor | None = None,
        *,
        eps: float = 1e-6,
        normalized_shape: Sequence[int] | None = None,
    ) -> Tensor:
        """Return ``x * rsqrt(mean(x^2) + eps) [* gain]`` over the last dimension, or over those of
        ``normalized_shape``.
        """
        what = "rms_norm"
        dims = self._normalized(what, x, normalized_shape, gain)
        number = float(self._number(what, eps))
        operands = [x] if gain is None else [x, gain]
        return self._apply(
            what, operands, lambda b, v: b.rms_norm(v[0], *v[1:], eps=number, dims=dims)
        )

    def layer_norm(
        self,
        x: Tensor,
        gain: Tensor | None = None,
        bias: Tensor | None = None,
        *,
        eps: float = 1e-5,
        normalized_shape: Sequence[int] | None = None,
    ) -> Tensor:
        """Return ``(x - mean) * rsqrt(var + eps) [* gain [+ bias]]`` over the last dimension, or
        over those of ``normalized_shape``; a bias requires a gain.
        """
        what = "layer_norm"
        if gain is None and bias is not None:
            raise GraphTypeError(
                f"{what}: expected a gain together with the bias, got a bias alone", user_location()
            )
        dims = self._normalized(what, x, normalized_shape, gain, bias)
        number = float(self._number(what, eps))
        operands = [t for t in (x, gain, bias) if t is not None]
        return self._apply(
            what, operands, lambda b, v: b.layer_norm(v[0], *v[1:], eps=number, dims=dims)
        )

    def _normalized(
        self, what: str, x: Tensor, normalized_shape: Sequence[int] | None, *weights: Tensor | None
    ) -> int:
        """Return the number of trailing dimensions that are normalised; weights must have exactly
        these dimensions."""
        shape = self._own(what, x).shape
        tail = shape[-1:] if normalized_shape is None else self._integers(what, normalized_shape)
        if not tail or shape[-len(tail) :] != tail:
            raise GraphShapeError(
                f"{what}: expected trailing dimensions of {shape}, got {tail}", user_location()
            )
        for weight in weights:
            if weight is not None and self._own(what, weight).shape != tail:
                raise GraphShapeError(
                    f"{what}: expected a weight of shape {tail}, got {weight.shape}",
                    user_location(),
                )
            if weight is not None:
                self._same_type(what, x.value, weight.value)
        return len(tail)

    def mean(self, x: Tensor, dim: int | Sequence[int]) -> Tensor:
        """Return the mean over one or more dimensions, which keep size 1."""
        total = self.sum(x, dim)
        return self.mul(total, total.value.type.size / x.value.type.size)

    # ---- joining and cutting

    def concat(self, tensors: Sequence[Tensor], dim: int) -> Tensor:
        """Concatenate tensors along ``dim``."""
        what = "concat"
        if not tensors:
            raise GraphTypeError(f"{what}: expected at least one tensor, got none", user_location())
        (d,) = self._integers(what, dim)

        def emit(b: Builder, v: tuple[Value, ...]) -> Value:
            self._same_type(what, *v)
            if len({len(x.shape) for x in v}) > 1:
                ranks = ", ".join(str(len(x.shape)) for x in v)
                raise GraphShapeError(
                    f"{what}: expected tensors of one rank, got ranks {ranks}", user_location()
                )
            return b.concat(v, d)

        return self._apply(what, list(tensors), emit)

    def slice(self, x: Tensor, offsets: Sequence[int], sizes: Sequence[int]) -> Tensor:
        """Return the block of shape ``sizes`` that starts at ``offsets``."""
        what = "slice"
        start, size = self._integers(what, offsets), self._integers(what, sizes)
        rank = len(self._own(what, x).shape)
        if not len(start) == len(size) == rank:
            got = f"{len(start)} and {len(size)}"
            raise GraphShapeError(
                f"{what}: expected {rank} offsets and {rank} sizes, got {got}", user_location()
            )
        return self._apply(what, [x], lambda b, v: b.slice(v[0], start, size))

    def iota(self, size: int, dtype: object = DType.I64) -> Tensor:
        """Return the positions ``0, 1, …, size - 1``."""
        (n,) = self._integers("iota", size)
        kind = as_dtype(dtype)
        return self._apply("iota", [], lambda b, v: iota(b, (n,), 0, kind))

    def gather(self, table: Tensor, indices: Tensor) -> Tensor:
        """Return the rows of ``table`` that ``indices`` select."""
        return self._apply("gather", [table, indices], lambda b, v: gather(b, v[0], v[1]))

    # ---- kernels written by hand

    def customized(
        self, inputs: Sequence[Tensor], block_graph: BlockGraphBuilder
    ) -> tuple[Tensor, ...]:
        """Append one kernel that runs ``block_graph`` for each point of its grid on ``inputs``;
        return its outputs.
        """
        handles = [self._own("customized", x) for x in inputs]
        launch = block_graph.launch(handles)
        self._builder.ops.append(launch)
        location = user_location()
        self._record(launch, location)
        return tuple(Tensor(self, value, location) for value in launch.results)

    # ---- the whole program

    def build(self) -> KernelGraph:
        """Return the program as data. Raises :class:`InvalidGraphError`."""
        outputs = self._outputs or self._unread()
        if not self._inputs and not self._builder.ops:
            raise InvalidGraphError("expected inputs and ops, got an empty graph", user_location())
        if not self._builder.ops:
            raise InvalidGraphError(
                "expected at least one op, got a graph of inputs only", user_location()
            )
        if not self._outputs and len(outputs) != 1:
            raise InvalidGraphError(
                f"expected mark_output or exactly one value that nothing reads, got {len(outputs)}",
                user_location(),
            )
        graph = KernelGraph(
            self.name,
            tuple(t.value for t in self._inputs),
            tuple(self._builder.ops),
            tuple(t.value for t in outputs),
        )
        graph = without_dead_ops(graph)
        check_inputs_used(graph, self._values)
        return graph

    def _unread(self) -> list[Tensor]:
        read = {v for op in self._builder.ops for v in op.operands}
        results = [v for op in self._builder.ops for v in op.results]
        return [Tensor(self, v, self._values[v]) for v in results if v not in read]

    def program(self) -> Program:
        """Return the program with its places in the source. Raises :class:`InvalidGraphError`."""
        return Program(self.build(), dict(self._locations))

    def superoptimize(self, **options: object) -> Optimized:
        """Search for a faster equivalent program, verify it and compile it; options as in
        ``mirage.OptimizeOptions``.

        The result is called with torch tensors: ``out, = optimized(inputs=[q, k, v])``.
        """

        program = self.program()
        launch = next(launches(program.graph.ops), None)
        if launch is not None:
            raise InvalidGraphError(
                "superoptimize: expected predefined ops only, got a customized kernel; use "
                "compile()",
                self._locations.get(launch),
            )
        return program.superoptimize(**options)

    def compile(self, **options: object) -> Optimized:
        """Compile the graph without a search; every op must be a customized kernel. Options are
        those of :meth:`superoptimize`.
        """

        return self.program().compile(**options)


def new_kernel_graph(name: str = "main") -> GraphBuilder:
    """Return an empty tensor program: add inputs and ops, then call
    :meth:`GraphBuilder.superoptimize`."""
    if not name.isidentifier():
        raise InvalidGraphError(f"expected an identifier as name, got {name!r}", user_location())
    return GraphBuilder(name)
