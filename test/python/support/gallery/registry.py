"""All cases, by name."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from gallery import decoders, diffusion, encoders, experts, torch_layers, vision
from gallery.case import Case

_CASES = {
    c.name: c
    for module in (torch_layers, encoders, decoders, vision, diffusion, experts)
    for c in module.CASES
}


def case(name: str) -> Case:
    """Return the case with a name. Raises KeyError."""
    return _CASES[name]


def cases(*patterns: str) -> Iterator[Case]:
    """Return the cases whose names match one of the patterns (all, without patterns), in order."""
    for name, found in _CASES.items():
        if not patterns or any(fnmatchcase(name, p) for p in patterns):
            yield found
