"""Imports of earlier runs: a graph whose canonical text is known needs neither ``torch.export`` nor
torch-mlir, which would take most of the time of a start.

An entry has the text that it is for, the effects, and the program as MLIR. Tensors that the program
holds are either the graph's own, by their paths, or computed at the import from constants, with
their contents. Positions in the user's program are not kept.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch

from mirage.cache import (
    PlainError,
    as_plain,
    from_plain,
    key_of,
    kind_version,
    read_entry,
    shared_store,
)
from mirage.frontend.program import Fixed, Parameter, Program, Seen
from mirage.frontend.torch_import.capture.effects import Effects
from mirage.pipeline.parts.graph_record import (
    BadRecordError,
    GraphRecord,
    graph_by_itself,
    record_of,
)
from mirage.runtime.dispatch.layouts import Layout
from mirage.torch.compiled_graph import count_ops
from mirage.torch.graph_import import GraphImport, device_of
from mirage.torch.graph_text import LARGEST, NoTextError, bytes_of, held_tensor
from mirage.torch.on_host import move

log = logging.getLogger("mirage.cache")

KIND = "import"


@dataclass(frozen=True)
class KeptLayout:
    """A :class:`~mirage.runtime.dispatch.layouts.Layout`."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    bytes: int
    input: int | None
    group: int
    conjugate: bool
    negative: bool


@dataclass(frozen=True)
class KeptTensor:
    """A tensor that the program holds: the graph's at ``path``, or one with ``content``."""

    index: int
    name: str
    trained: bool
    path: str | None
    dtype: str
    shape: tuple[int, ...]
    content: str


@dataclass(frozen=True)
class KeptGraph:
    """A :class:`~mirage.frontend.program.Program`."""

    name: str
    graph: GraphRecord
    tensors: tuple[KeptTensor, ...]
    results: tuple[int | Fixed | Seen, ...] | None
    keys: tuple[str, ...]
    unread: tuple[str, ...]
    updates: tuple[int, ...]
    carriers: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class KeptImport:
    """The entry of a graph."""

    text: str
    results: tuple[KeptLayout | bool | int | float | str | None, ...]
    written: tuple[int, ...]
    program: KeptGraph | None
    calls: tuple[str, ...]
    reasons: tuple[str, ...]


def text_of(text: Callable[[], str]) -> str | None:
    """Return the text by which the import of a graph is kept; None if it is not."""
    try:
        return text()
    except NoTextError as error:
        log.debug("the import of a graph is not kept: %s", error)
        return None


def kept_import(
    text: str,
    module: torch.fx.GraphModule,
    inputs: Sequence[Any],
    waiting: list[tuple[torch.Tensor, torch.device]] | None = None,
) -> GraphImport | None:
    """Return the import of a graph that has been kept, or None. With ``waiting``, tensors that it
    made are not moved to their devices, but added to that list."""

    def restored(kept: KeptImport) -> GraphImport:
        made: list[torch.Tensor] = []
        program = None if kept.program is None else program_of(kept.program, module, inputs, made)
        device = device_of(inputs)
        if waiting is not None:
            waiting.extend((x, device) for x in made)
        else:
            for x in made:
                move(x, device)
        effects = Effects(tuple(map(_result, kept.results)), kept.written)
        return GraphImport(effects, program, kept.calls, kept.reasons)

    return entry_of(text, KeptImport, restored)


class HasText(Protocol):
    """An entry of a graph with a canonical text."""

    @property
    def text(self) -> str: ...


E = TypeVar("E", bound=HasText)
R = TypeVar("R")


def entry_of(text: str, of: type[E], restored: Callable[[E], R]) -> R | None:
    """Return what is ``restored`` of the entry of a graph with a canonical text, or None."""

    def own(kept: E) -> R:
        if kept.text != text:
            raise PlainError("it is of another graph")
        return restored(kept)

    return read_entry(shared_store(), KIND, entry_key(text), of, own, NoTextError, AttributeError)


def entry_key(text: str) -> str:
    """Return the key of the entry of a graph with a canonical text."""
    return key_of(KIND, kind_version(KIND), text)


def keep_import(text: str, module: torch.fx.GraphModule, found: GraphImport) -> None:
    """Keep an import; failing to is not an error."""
    try:
        program = None if found.program is None else kept_graph(found.program, module)
        results = tuple(map(_kept_result, found.effects.results))
        kept = KeptImport(text, results, found.effects.written, program, found.calls, found.reasons)
        put_entry(text, module, kept)
    except (BadRecordError, PlainError, NoTextError) as error:
        log.debug("the import of a graph is not kept: %s", error)


def put_entry(text: str, module: torch.fx.GraphModule, kept: object) -> None:
    """Keep the entry of a graph with a canonical text. Raises
    :class:`~mirage.cache.PlainError`."""
    payload = json.dumps(as_plain(kept)).encode()
    from_plain(type(kept), json.loads(payload))
    about = f"a graph of {count_ops(module)} ops"
    shared_store().put(KIND, entry_key(text), payload, version=kind_version(KIND), about=about)


# ---- programs


def kept_graph(program: Program, module: torch.fx.GraphModule) -> KeptGraph:
    """Return a program of a graph in the form that is kept. Raises :class:`NoTextError` and
    :class:`~mirage.pipeline.parts.graph_record.BadRecordError`."""
    paths = [str(n.target) for n in module.graph.nodes if n.op == "get_attr"]
    own = {id(held_tensor(module, path)): path for path in paths}
    tensors = tuple(_kept_tensor(p, own.get(id(p.data))) for p in program.parameters)
    if sum(len(t.content) for t in tensors) > LARGEST:
        raise NoTextError(f"it was made with tensors of more than {LARGEST} bytes")
    return KeptGraph(
        program.graph.name, record_of(program.graph), tensors, program.results, program.keys,
        program.unread, program.updates, tuple(program.carriers.items()),
    )  # fmt: skip


def _kept_tensor(p: Parameter, path: str | None) -> KeptTensor:
    x = p.data
    if not isinstance(x, torch.Tensor):
        raise NoTextError(f"{p.name} is a {type(x).__name__}")
    content = "" if path is not None else base64.b64encode(bytes_of(x)).decode()
    dtype = str(x.dtype).removeprefix("torch.")
    return KeptTensor(p.index, p.name, p.trained, path, dtype, tuple(x.shape), content)


def program_of(
    kept: KeptGraph, module: torch.fx.GraphModule, inputs: Sequence[Any], made: list[torch.Tensor]
) -> Program:
    """Return the program of a graph; tensors that are not the graph's own are added to ``made``.
    Raises ``ValueError`` and ``AttributeError`` for what is damaged."""
    graph = graph_by_itself(kept.graph, kept.name)
    tensors = [_held(t, module) for t in kept.tensors]
    made += (x for t, x in zip(kept.tensors, tensors, strict=True) if t.path is None)
    parameters = tuple(
        Parameter(t.index, t.name, x, t.trained) for t, x in zip(kept.tensors, tensors, strict=True)
    )
    given = [x for x in inputs if isinstance(x, torch.Tensor)]
    program = Program(
        graph, {}, parameters, kept.results, kept.keys, kept.unread, kept.updates,
        dict(kept.carriers),
    )  # fmt: skip
    held = {t.index: x for t, x in zip(kept.tensors, tensors, strict=True)}
    rest = iter(given)
    for i, value in enumerate(graph.inputs):
        x = held[i] if i in held else next(rest, None)
        if x is None or tuple(x.shape) != value.type.shape:
            raise PlainError(f"expected a tensor of {value.type} as input {i}")
    return program


def _held(kept: KeptTensor, module: torch.fx.GraphModule) -> torch.Tensor:
    if kept.path is not None:
        return held_tensor(module, kept.path)
    data = bytearray(base64.b64decode(kept.content))
    dtype = _dtype(kept.dtype)
    x = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
    return x.reshape(kept.shape)


# ---- effects


def _kept_result(found: Any) -> KeptLayout | bool | int | float | str | None:
    if not isinstance(found, Layout):
        return found
    dtype = str(found.dtype).removeprefix("torch.")
    return KeptLayout(
        dtype, found.shape, found.strides, found.offset, found.bytes, found.input, found.group,
        found.conjugate, found.negative,
    )  # fmt: skip


def _result(kept: Any) -> Any:
    if not isinstance(kept, KeptLayout):
        return kept
    return Layout(
        _dtype(kept.dtype), kept.shape, kept.strides, kept.offset, kept.bytes, kept.input,
        kept.group, kept.conjugate, kept.negative,
    )  # fmt: skip


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise PlainError(f"expected a type of PyTorch, got {name!r}")
    return found
