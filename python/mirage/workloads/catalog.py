"""All built-in programs by name."""

from __future__ import annotations

import difflib
from functools import cache

from mirage.errors import MirageError
from mirage.workloads.attention import attention
from mirage.workloads.layers import layers
from mirage.workloads.linear import linear
from mirage.workloads.long_rows import long_rows
from mirage.workloads.position_programs import positions
from mirage.workloads.products import products
from mirage.workloads.prompts import prompts
from mirage.workloads.served import served
from mirage.workloads.workload import Workload

FAMILIES = (attention, linear, long_rows, products, served, prompts, layers, positions)


class UnknownWorkload(MirageError, LookupError):
    """There is no built-in program of that name."""


@cache
def _catalog() -> dict[str, Workload]:
    return {w.name: w for family in FAMILIES for w in family()}


def all_workloads() -> tuple[Workload, ...]:
    """Return all built-in programs."""
    return tuple(_catalog().values())


def names() -> tuple[str, ...]:
    """Return the names of all built-in programs."""
    return tuple(_catalog())


def get(name: str) -> Workload:
    """Return the program called ``name``; raises :class:`UnknownWorkload`."""
    workload = _catalog().get(name)
    if workload is None:
        near = difflib.get_close_matches(name, _catalog(), 3)
        hint = f"; did you mean {' or '.join(near)}?" if near else "; `mirage workloads` lists all"
        raise UnknownWorkload(f"expected the name of a built-in workload, got {name!r}{hint}")
    return workload
