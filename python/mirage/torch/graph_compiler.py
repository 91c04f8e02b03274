"""``torch.compile(backend="mirage")``: graphs that can be imported are searched, verified and
compiled; PyTorch runs the others.

TorchDynamo passes one graph after the other to the backend. Inside a graph, ops that mirage does
not support remain calls of PyTorch between the compiled parts. A whole graph remains with PyTorch
if it needs gradients, does not run on a GPU, or has nothing that can be compiled; the log
``mirage.torch`` has the reason. Until another process has found, verified and compiled the kernels
of a graph, PyTorch answers its calls (:mod:`mirage.torch.background`). In a graph with dynamic
sizes, one size that is a number of rows (of a batch, of tokens) stays dynamic, as a parameter of
the kernels (:mod:`mirage.torch.sized_graph`). If most ops of another graph have fixed sizes, these
are compiled for all sizes of the others (:mod:`mirage.torch.sizes_apart`), and sets of sizes that
occur often are compiled as a whole. The same is done for all sets of sizes of graphs of neither
kind, up to a limit.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from mirage.pipeline.options import OptionError
from mirage.torch.background import ClassLoader, load_class, load_program
from mirage.torch.changing_numbers import changing_numbers
from mirage.torch.checkpoints import without_checkpoints
from mirage.torch.compiled_graph import (
    CannotImportError,
    Compiled,
    CompiledGraph,
    Compiler,
    Report,
    count_ops,
    describe,
)
from mirage.torch.graph_import import GraphImport
from mirage.torch.graph_inputs import check_inputs, is_sized, told_sizes
from mirage.torch.graph_rows import Rows, rows_of, why_no_rows
from mirage.torch.graph_work import GraphWork, split_options
from mirage.torch.import_once import import_once
from mirage.torch.numbers_apart import numbers_apart
from mirage.torch.ops_apart import ops_apart
from mirage.torch.refused_apart import Found, InPieces, refused_apart
from mirage.torch.refused_ops import Refusal
from mirage.torch.regions import enables_gradients, without_gradient_regions
from mirage.torch.settled_numbers import settled_numbers
from mirage.torch.sizes_apart import sizes_apart
from mirage.torch.workshop import Workshop

if TYPE_CHECKING:
    from mirage.torch.sized_graph import SizedClass, SizedGraph

log = logging.getLogger("mirage.torch")

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
"""The modes of ``torch.compile``, which are accepted and equivalent. The option ``budget`` limits
the search; CUDA graphs are not captured here, but a caller may capture the compiled program."""
MOST_SIZES = 16
"""The most sets of sizes that a graph is compiled for; calls with further ones run eagerly."""
FIRST = 1
"""The number of sets of sizes that are compiled as a whole before it is known that others occur."""
OFTEN = 32
"""The calls after which a set of sizes is compiled as a whole, if the rest of the graph is compiled
for any sizes."""
COUNTED = 4096
"""The most sets of sizes whose calls are counted."""


def backend(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
    compiler: Compiler | None = None,
    class_compiler: Callable[[SizedClass, Mapping[str, Any]], Compiled] | None = None,
    load: Compiler = load_program,
    load_class: ClassLoader = load_class,
    workshop: Workshop | None = None,
    importer: Workshop | None = None,
    devices: Sequence[str] = ("cuda",),
    watch: Callable[[Report], None] = lambda report: None,
) -> Callable[..., Any]:
    """Compile a graph, as TorchDynamo calls the backend; ``options`` and ``mode`` are those given
    to ``torch.compile``. ``watch`` is called with reports on the graph.

    Processes of ``importer`` import graphs (with a ``workshop`` alone they are imported here), and
    those of ``workshop`` optimize programs; ``load`` makes their results ready to be called,
    and ``load_class`` those for classes of sizes. A ``compiler`` does both at once in this process,
    and so does a ``class_compiler`` for classes (with a ``compiler`` alone there are no classes).
    Raises :class:`mirage.pipeline.options.OptionError` for unknown options and modes. After any
    other error, the graph remains with PyTorch.
    """
    chosen, blocking = split_options(options or {})
    if mode not in (None, *MODES):
        raise OptionError(f"expected a mode among {', '.join(MODES)}, got {mode!r}")
    work = GraphWork(
        chosen, blocking, compiler, class_compiler, load, load_class, workshop, importer
    )

    def graph(module: torch.fx.GraphModule) -> _Graph:
        return _Graph(module, work, devices, watch)

    def answer(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        try:
            apart = ops_apart(module, answer)
        except Exception as error:
            _stays(module, error, watch)
            return module.forward
        return _answer(module, inputs, graph, watch) if apart is None else apart

    return answer(module, example_inputs)


def _answer(
    module: torch.fx.GraphModule,
    inputs: Sequence[Any],
    graph: Callable[[torch.fx.GraphModule], _Graph],
    watch: Callable[[Report], None],
) -> Callable[..., Any]:
    """Return the callable that replaces a graph. The arithmetic of numbers is separated first;
    ``graph`` makes an object that compiles the rest."""
    sized = is_sized(module, inputs)
    apart = numbers_apart(module, inputs)
    rest, given = (module, inputs) if apart is None else (apart.module, apart.inputs(inputs))

    def compiled(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        try:
            numbers = changing_numbers(module, inputs)
        except Exception as error:
            _stays(module, error, watch)
            return module.forward
        if numbers is None:
            return graph(module).answer(inputs, sized)
        found = graph(numbers.module).answer(numbers.examples(inputs), sized)
        return lambda *inputs: found(*numbers(inputs))

    settled = settled_numbers(rest, given)
    answer = compiled(rest, given) if settled is None else settled.answer(compiled)
    return answer if apart is None else apart.beside(answer)


class _Graph:
    """A graph of TorchDynamo, and its compiled forms."""

    def __init__(
        self,
        module: torch.fx.GraphModule,
        work: GraphWork,
        devices: Sequence[str],
        watch: Callable[[Report], None],
    ) -> None:
        self.module, self.work, self.devices, self.watch = module, work, devices, watch
        plain = without_checkpoints(module)
        self.gradients = enables_gradients(plain.graph)
        self.without_gradients = without_gradient_regions(plain)
        self.rows: Rows | None = None
        self.why_alone = ""
        """Why there is a program for each set of sizes."""
        self._found: dict[object, Found | None] = {}
        self._apart: Callable[..., Any] | None = None
        self._is_cut = False
        self._calls: Counter[object] = Counter()
        self._sized: dict[object, SizedGraph | None] = {}
        self._lock = threading.Lock()

    def answer(self, inputs: Sequence[Any], sized: bool) -> Callable[..., Any]:
        """Return the callable that replaces the graph for inputs like these. A graph that
        TorchDynamo traced with sizes (``sized``) is imported when it is called, since PyTorch still
        uses the symbols that stand for them until then."""
        if sized:
            with suppress(Exception):  # another form of sizes in a later version of PyTorch
                self.rows = rows_of(self.module)
                self.why_alone = "" if self.rows else why_no_rows(self.module)
            return self.for_sizes
        return self.compiled(inputs) or self.module.forward

    def compiled(self, inputs: Sequence[Any], sizes: str = "") -> Found | None:
        """Return the compiled graph for inputs like these; None if it remains with PyTorch."""
        try:
            check_inputs(inputs, self.devices, self.gradients)
            module = self.without_gradients
            later = partial(self.work.import_later, module, inputs, partial(self._pieces, sizes))
            found = import_once(module, inputs, self.work.kept, later)
            if isinstance(found, Refusal):
                pieces = self._pieces(sizes, found, inputs)
                if pieces is None:
                    raise CannotImportError(found.reason)
                return pieces
            if isinstance(found, GraphImport):
                found = CompiledGraph(module, inputs, found)
            found.report.sizes = sizes
            if isinstance(found, CompiledGraph):
                self.work.compile_graph(found)
        except Exception as error:
            _stays(self.module, error, self.watch)
            return None
        self.watch(found.report)
        return found

    def _pieces(self, sizes: str, refusal: Refusal, inputs: Sequence[Any]) -> InPieces | None:
        """Return the graph in pieces, as it cannot be imported as a whole; None if it stays with
        PyTorch."""

        def piece(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Found | None:
            return self._compiled_piece(module, inputs, sizes)

        def stays(module: torch.fx.GraphModule, reason: str) -> None:
            _stays(module, CannotImportError(reason), self.watch)

        return refused_apart(self.without_gradients, refusal, inputs, piece, stays)

    def for_sizes(self, *inputs: Any) -> Any:
        """Call the graph that is compiled for inputs of these sizes."""
        with self._lock:
            found = self._by_rows(inputs) or self._at_sizes(inputs)
        return self.module.forward(*inputs) if found is None else found(*inputs)

    def _at_sizes(self, inputs: Sequence[Any]) -> Callable[..., Any] | None:
        """Return the graph for inputs of exactly these sizes, or for any sizes."""
        key = tuple(
            (tuple(x.shape), x.stride()) if isinstance(x, torch.Tensor) else x for x in inputs
        )
        if key in self._found:
            return self._found[key]
        full = len(self._found) == MOST_SIZES
        any_sizes = self._for_any_sizes() if len(self._found) >= FIRST else None
        if full or (any_sizes is not None and not self._is_often(key)):
            return any_sizes
        why = f" ({self.why_alone})" if self.why_alone else ""
        sizes = f"for {told_sizes(self.module, inputs)} alone{why}"
        self._found[key] = self.compiled(inputs, sizes)
        if len(self._found) == MOST_SIZES and any_sizes is None:
            reason = f"it is compiled for {MOST_SIZES} sets of sizes already"
            log.warning("a graph has run at %d sizes; others stay eager", MOST_SIZES)
            self.watch(Report(count_ops(self.module), reason, sizes="for all other sizes"))
        return self._found[key]

    def _is_often(self, key: object) -> bool:
        """Count a call; return whether there were so many that its sizes are worth a program."""
        if len(self._calls) == COUNTED:
            self._calls.clear()
        self._calls[key] += 1
        return self._calls[key] > OFTEN

    def _for_any_sizes(self) -> Callable[..., Any] | None:
        """Return the graph with its pieces of fixed sizes compiled; None if these are few."""
        if not self._is_cut:
            self._is_cut = True
            try:
                self._apart = sizes_apart(self.without_gradients, self._compiled_piece)
            except Exception as error:  # another form of sizes in a later version of PyTorch
                log.info("a graph is compiled for each size: %s", describe(error))
                log.debug("why:", exc_info=error)
        return self._apart

    def _compiled_piece(
        self, module: torch.fx.GraphModule, inputs: Sequence[Any], sizes: str
    ) -> Found | None:
        piece = _Graph(module, self.work, self.devices, self.watch)
        return piece.compiled(inputs, sizes)

    def _by_rows(self, inputs: Sequence[Any]) -> Callable[..., Any] | None:
        """Return the callable for any number of rows; None if the graph is compiled for one size
        after the other."""
        rows = self.rows
        if rows is None or not self.work.has_classes:
            return None
        rows = rows.of(inputs)
        key = rows.others(inputs)
        try:
            if key not in self._sized and len(self._sized) < MOST_SIZES:
                self._sized[key] = None
                self._sized[key] = self._sized_graph(rows, inputs)
            graph = self._sized.get(key)
            return None if graph is None else graph.at(inputs)
        except Exception as error:
            self._sized[key] = None
            self.why_alone = describe(error)
            log.info(
                "a graph of %d ops is compiled for each size, not for any %s: %s",
                count_ops(self.module), rows.name, describe(error),
            )  # fmt: skip
            log.debug("why:", exc_info=error)
            return None

    def _sized_graph(self, rows: Rows, inputs: Sequence[Any]) -> SizedGraph:
        from mirage.torch.sized_graph import SizedGraph

        check_inputs(inputs, self.devices, self.gradients)
        return SizedGraph(self.without_gradients, rows, inputs, self.work, self.watch)


def _stays(module: torch.fx.GraphModule, error: Exception, watch: Callable[[Report], None]) -> None:
    """Says that a graph is left to PyTorch, and why."""
    reason, count = describe(error), count_ops(module)
    log.warning("a graph of %d ops stays with PyTorch: %s", count, reason)
    log.debug("why:", exc_info=error)
    watch(Report(count, reason))


def register() -> None:
    """Register ``backend="mirage"`` with ``torch.compile``; importing :mod:`mirage.torch` does
    so."""
    import torch._dynamo

    if "mirage" not in torch._dynamo.list_backends(exclude_tags=()):
        torch._dynamo.register_backend(backend, name="mirage")
