"""PyTorch's own decompositions, for what has no row of its own."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import torch
from torch._C import DispatchKey
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.export import exported_program
from torch.export.graph_signature import OutputKind

from mirage.frontend.torch_import.folding import is_small, pure
from mirage.frontend.torch_import.op_table import TABLE

CHECK = torch.ops.aten._assert_tensor_metadata.default
"""Of types and shapes, which are those of the example inputs."""

_SPLIT: Any = getattr(exported_program, "_split_decomp_table_to_cia_and_python_decomp", None)
_DECOMPOSE: Any = getattr(exported_program, "_decompose_exported_program", None)

_Table = dict[Any, Callable[..., Any]]
_split: dict[frozenset[Any], tuple[_Table, _Table]] = {}
"""For the ops of a table: what it makes of composite ones, and of others."""


def decomposed(
    exported: torch.export.ExportedProgram, *, in_place: bool
) -> torch.export.ExportedProgram:
    """The program in ops that have rows, as far as PyTorch knows definitions of the others. Where
    all have rows and none writes to its operands, that is the program itself if it may be changed
    ``in_place``: most of what PyTorch does here takes as long for two ops as for a thousand."""
    graph = exported.graph
    if not in_place or not all(_stays(node) for node in graph.nodes):
        found = _run(exported, _decompositions())
        _drop_steps(found.graph)
        if not any(spec.kind is OutputKind.TOKEN for spec in found.graph_signature.output_specs):
            return found
        # what checks its result as it runs stays whole, and checks it where it is called
        checked = {op: made for op, made in _decompositions().items() if not _is_solver(op)}
        return _run(exported, checked)
    for node in graph.find_nodes(op="call_function", target=CHECK):
        graph.erase_node(node)
    return exported


def _run(
    exported: torch.export.ExportedProgram, table: Mapping[Any, Callable[..., Any]]
) -> torch.export.ExportedProgram:
    """``exported.run_decompositions(table)``, but in a third of the time: PyTorch looks for all
    composite ops there are and registers anew what each is made of, whatever the program has. Here
    only those are registered that are to stay whole or to become something of the table's own."""
    if _SPLIT is None or _DECOMPOSE is None:  # a version of PyTorch that does it in another way
        return exported.run_decompositions(dict(table))
    key = frozenset(table)
    if key not in _split:
        composite, others = _SPLIT(dict(table))
        own = {op: made for op, made in composite.items() if not _is_default(op, made)}
        _split[key] = own, others
    composite, others = _split[key]
    with unset_fake_temporarily():
        return _DECOMPOSE(
            exported,
            cia_to_decomp=dict(composite),
            python_decomp_table=dict(others),
            joint_loss_index=None,
            decompose_custom_triton_ops=False,
        )


def _is_default(op: Any, made: Any) -> bool:
    """Whether that is what PyTorch does with a composite op of its own accord."""
    kernel = op.py_kernels.get(DispatchKey.CompositeImplicitAutograd)
    if kernel is not None and made is kernel:
        return True
    return isinstance(made, partial) and not made.args and made.keywords == {"kernel": op}


def _drop_steps(graph: torch.fx.Graph) -> None:
    """Takes out what gives a tensor other steps only along dimensions of one index, as PyTorch does
    to say that results are of channels last."""
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.as_strided.default):
        source: Any = node.args[0]
        x, y = source.meta["val"], node.meta["val"]
        steps = zip(y.shape, x.stride(), y.stride(), strict=False)
        same = x.shape == y.shape and x.storage_offset() == y.storage_offset()
        if same and all(a == b or n <= 1 for n, a, b in steps):
            node.replace_all_uses_with(source)
            graph.erase_node(node)


def _stays(node: torch.fx.Node) -> bool:
    """Whether taking ops apart leaves it as it is, or out."""
    target: Any = node.target
    if node.op != "call_function":
        return node.op in ("placeholder", "output")
    if isinstance(target, OpOverload):
        if not node.all_input_nodes and pure(target) and is_small(node):
            return True  # it is made of numbers: its value is what matters (:mod:`folding`)
        schema: Any = target._schema  # pyright: ignore[reportPrivateUsage]
        return target == CHECK or (target in _rows() and not schema.is_mutable)
    return target is operator.getitem


def _is_solver(op: object) -> bool:
    """Whether an op is one of linear algebra that may fail."""
    name = str(getattr(op, "_schema", "")).partition("(")[0].removeprefix("aten::")
    return name.startswith(("linalg_", "cholesky", "inverse"))


@cache
def _rows() -> frozenset[OpOverload]:
    """The ops that have rows."""
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
    """Those by default, without those of ops that have rows."""
    every: dict[Any, Callable[..., Any]] = torch.export.default_decompositions().materialize()
    return {op: function for op, function in every.items() if op not in _rows()}
