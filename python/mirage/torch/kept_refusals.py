"""Graphs that could not be imported as a whole in earlier runs, with the ops that cannot be
imported alone: the next run cuts them around these ops at once."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from torch.fx import GraphModule

from mirage.cache import PlainError
from mirage.torch.kept_import import entry_of, put_entry
from mirage.torch.refused_ops import Refusal

log = logging.getLogger("mirage.cache")


@dataclass(frozen=True)
class KeptRefusal:
    """The entry of a graph."""

    text: str
    reason: str
    ops: tuple[tuple[int, str], ...]


def kept_refusal(text: str) -> Refusal | None:
    """Return what of the graph with a canonical text cannot be imported, if that is kept."""
    return entry_of(_own(text), KeptRefusal, lambda kept: Refusal(kept.reason, kept.ops))


def keep_refusal(text: str, module: GraphModule, refusal: Refusal) -> None:
    """Keep what of a graph cannot be imported; failing to is not an error."""
    own = _own(text)
    try:
        put_entry(own, module, KeptRefusal(own, refusal.reason, refusal.ops))
    except PlainError as error:
        log.debug("what of a graph cannot be imported is not kept: %s", error)


def _own(text: str) -> str:
    """The text of the entry, which is not that of an import."""
    return f"{text}\nrefused"
