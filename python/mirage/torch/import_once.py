"""The import of a graph, or what of it cannot be imported: that of an earlier run if it is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from mirage.frontend.torch_import import effects_of
from mirage.torch.graph_import import GraphImport, import_graph
from mirage.torch.graph_text import graph_text
from mirage.torch.kept_import import keep_import, kept_import, text_of
from mirage.torch.kept_refusals import keep_refusal, kept_refusal
from mirage.torch.refused_ops import Importer, Refusal, refusal_of

T = TypeVar("T")
NOT_OF_THE_GRAPH = (MemoryError, OSError, torch.OutOfMemoryError)
"""Errors that say nothing about a graph."""


def import_once(
    module: torch.fx.GraphModule,
    inputs: Sequence[Any],
    kept: bool = True,
    later: Callable[[str], T | None] = lambda text: None,
) -> GraphImport | Refusal | T:
    """Return the import of a graph or its refusal: those of an earlier run, the result of ``later``
    for its text unless that is None, or those that are made now. With ``kept``, they are used and
    kept."""
    text = text_of(lambda: graph_text(module, inputs))
    if kept and text is not None:
        found = kept_import(text, module, inputs) or kept_refusal(text)
        if found is not None:
            return found
    own = text if kept else None
    try:
        instead = None if text is None else later(text)
    except Exception as error:
        return refused(module, inputs, error, effects_of, own)
    if instead is not None:
        return instead
    try:
        found = import_graph(module, inputs)
    except Exception as error:
        return refused(module, inputs, error, import_graph, own)
    if kept and text is not None:
        keep_import(text, module, found)
    return found


def refused(
    module: torch.fx.GraphModule,
    inputs: Sequence[Any],
    error: Exception,
    imported: Importer,
    text: str | None,
) -> Refusal:
    """Return the refusal of a graph whose import has failed with an ``error``, and keep it by the
    canonical text of the graph, unless that is None. Raises an error that says nothing about the
    graph."""
    if isinstance(error, NOT_OF_THE_GRAPH):
        raise error
    found = refusal_of(module, inputs, error, imported)
    if text is not None:
        keep_refusal(text, module, found)
    return found
