"""Decompositions of ops without a row: PyTorch's own, and those of layers for which it has none."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch._C import DispatchKey
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.export import exported_program
from torch.export.graph_signature import ExportGraphSignature, OutputKind

from mirage.frontend.torch_import.capture.fake_quantization import FAKE_QUANTIZATION
from mirage.frontend.torch_import.capture.folding import is_small, pure
from mirage.frontend.torch_import.capture.functional_writes import functional_writes
from mirage.frontend.torch_import.capture.fused_layers import LAYERS
from mirage.frontend.torch_import.capture.single_decompositions import Definitions, decompose_nodes
from mirage.frontend.torch_import.capture.stack_traces import calls_of_models
from mirage.frontend.torch_import.rows.op_table import TABLE

CHECK = torch.ops.aten._assert_tensor_metadata.default
"""Checks of types and shapes; these are always those of the example inputs."""

_SPLIT: Any = getattr(exported_program, "_split_decomp_table_to_cia_and_python_decomp", None)
_DECOMPOSE: Any = getattr(exported_program, "_decompose_exported_program", None)

_Table = dict[Any, Callable[..., Any]]
_split: dict[frozenset[Any], tuple[_Table, _Table]] = {}
"""For the ops of a table, its definitions of composite ops, and of others."""


def decomposed(
    exported: torch.export.ExportedProgram, *, in_place: bool
) -> torch.export.ExportedProgram:
    """Return the program in ops that have rows, as far as PyTorch has definitions of the other ops.

    If all ops have rows, or can be replaced one by one, and none writes to anything but an input,
    the program itself is changed, ``in_place`` or as a copy: most of PyTorch's work here takes as
    long for two ops as for a thousand."""
    kept = exported if in_place else _copied(exported)
    if not all(_stays(node) for node in kept.graph.nodes):
        if not _replaced(kept):
            return _traced_again(exported)
        _drop_steps(kept.graph)
    writes = functional_writes(kept)
    if writes is None or not all(op in _rows() for op in writes.ops.values()):
        return _run(exported, _decompositions())
    writes.apply(kept)
    for node in kept.graph.find_nodes(op="call_function", target=CHECK):
        kept.graph.erase_node(node)
    return kept


def _replaced(exported: torch.export.ExportedProgram) -> bool:
    """Replace the ops without a row one by one, if possible."""
    if _SPLIT is None:
        return False
    with unset_fake_temporarily():
        return decompose_nodes(exported, *_split_of(_decompositions()), _stays)


def _traced_again(exported: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return the program as PyTorch decomposes it."""
    found = _run(exported, _decompositions())
    _drop_steps(found.graph)
    if not any(spec.kind is OutputKind.TOKEN for spec in found.graph_signature.output_specs):
        return found
    # solvers that check their results remain whole, and check them when called
    checked = {op: made for op, made in _decompositions().items() if not _is_solver(op)}
    return _run(exported, checked)


def _copied(exported: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return the program with its own copies of graph and signature."""
    found = copy.copy(exported)
    module = exported.graph_module
    made = torch.fx.GraphModule(module, copy.deepcopy(module.graph))
    made.meta.update(module.meta)
    signature = exported.graph_signature
    found._graph_module = made  # pyright: ignore[reportPrivateUsage]
    found._graph_signature = ExportGraphSignature(  # pyright: ignore[reportPrivateUsage]
        list(signature.input_specs), list(signature.output_specs)
    )
    return found


def _run(
    exported: torch.export.ExportedProgram, table: Definitions
) -> torch.export.ExportedProgram:
    """Return ``exported.run_decompositions(table)`` in a third of the time. PyTorch looks for all
    existing composite ops and registers the decomposition of each one again, whatever the program
    contains. Here only the ops that stay whole, or whose decomposition is the table's own, are
    registered."""
    if _SPLIT is None or _DECOMPOSE is None:  # another version of PyTorch works differently
        return exported.run_decompositions(dict(table))
    composite, others = _split_of(table)
    with unset_fake_temporarily(), calls_of_models():
        return _DECOMPOSE(
            exported,
            cia_to_decomp=dict(composite),
            python_decomp_table=dict(others),
            joint_loss_index=None,
            decompose_custom_triton_ops=False,
        )


def _split_of(table: Definitions) -> tuple[_Table, _Table]:
    """Return a table's definitions of composite ops, without PyTorch's own, and of others."""
    key = frozenset(table)
    if key not in _split:
        composite, others = _SPLIT(dict(table))
        own = {op: made for op, made in composite.items() if not _is_default(op, made)}
        _split[key] = own, others
    return _split[key]


def _is_default(op: Any, made: Any) -> bool:
    """Return whether this is PyTorch's default decomposition of a composite op."""
    kernel = op.py_kernels.get(DispatchKey.CompositeImplicitAutograd)
    if kernel is not None and made is kernel:
        return True
    return isinstance(made, partial) and not made.args and made.keywords == {"kernel": op}


def _drop_steps(graph: torch.fx.Graph) -> None:
    """Remove ops that change a tensor's strides only along dimensions of size 1, which PyTorch
    inserts to mark results as channels-last."""
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.as_strided.default):
        source: Any = node.args[0]
        x, y = source.meta["val"], node.meta["val"]
        steps = zip(y.shape, x.stride(), y.stride(), strict=False)
        same = x.shape == y.shape and x.storage_offset() == y.storage_offset()
        if same and all(a == b or n <= 1 for n, a, b in steps):
            node.replace_all_uses_with(source)
            graph.erase_node(node)


def _stays(node: torch.fx.Node) -> bool:
    """Return whether decomposition leaves the op unchanged, removes it, or has no other use for it
    than its writes."""
    target: Any = node.target
    if node.op != "call_function":
        return node.op in ("placeholder", "output")
    if isinstance(target, OpOverload):
        if not node.all_input_nodes and pure(target) and is_small(node):
            return True  # it consists of numbers: only its value matters (:mod:`folding`)
        schema: Any = target._schema  # pyright: ignore[reportPrivateUsage]
        return target == CHECK or target in _rows() or schema.is_mutable
    return target is operator.getitem


def _is_solver(op: object) -> bool:
    """Return whether an op is one of linear algebra that may fail."""
    name = str(getattr(op, "_schema", "")).partition("(")[0].removeprefix("aten::")
    return name.startswith(("linalg_", "cholesky", "inverse"))


@cache
def _rows() -> frozenset[OpOverload]:
    """Return the ops that have rows."""
    found: list[OpOverload] = []
    for name in TABLE:
        namespace, op, *overload = name.split(".")
        packet = getattr(getattr(torch.ops, namespace), op, None)
        function = getattr(packet, overload[0] if overload else "default", None)
        if function is not None:
            found.append(function)
    return frozenset(found)


@cache
def _decompositions() -> dict[Any, Callable[..., Any]]:
    """Return the default decompositions and ours, without those of ops that have rows."""
    every: dict[Any, Callable[..., Any]] = torch.export.default_decompositions().materialize()
    every |= LAYERS | FAKE_QUANTIZATION
    return {op: made for op, made in every.items() if op not in _rows()}
