"""Entries of the cache whose payload is a value of a dataclass (:mod:`mirage.cache.plain`)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeVar

from mirage.cache.plain import from_plain
from mirage.cache.store import Store

T = TypeVar("T")
R = TypeVar("R")


def read_entry(
    store: Store,
    kind: str,
    key: str,
    of: type[T],
    made: Callable[[T], R],
    *refusals: type[Exception],
) -> R | None:
    """Return what is ``made`` of an entry, a value ``of`` a class; None if there is no entry, or
    none that can be used. An entry for which ``made`` raises :class:`ValueError` (of which
    :class:`~mirage.cache.PlainError` is one) or an error of ``refusals`` is damaged."""
    payload = store.get(kind, key)
    if payload is None:
        return None
    try:
        return made(from_plain(of, json.loads(payload)))
    except (ValueError, *refusals) as error:
        store.damaged(kind, key, str(error))
        return None
