"""``--dynamic``: dimensions that are known only at the call."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mirage.errors import MirageError

_FORM = re.compile(r"(?P<inputs>[A-Za-z_]\w*:\d+(,[A-Za-z_]\w*:\d+)*)=(?P<min>\d+)\.\.(?P<max>\d+)")


class DynamicOptionError(MirageError, ValueError):
    """A dimension is not declared correctly."""


def add_dynamic_argument(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    parser.add_argument(
        "--dynamic",
        action="append",
        default=[],
        metavar="INPUT:DIM=MIN..MAX",
        help="this dimension of an input is known at the call only, within these limits; several "
        "inputs that share it: ids:0,mask:0=1..256",
    )


def dynamic_shapes(given: Sequence[str]) -> dict[str, dict[int, Any]]:
    """Return the dimensions in the form that ``torch.export`` takes. Raises
    :class:`DynamicOptionError`."""
    import torch

    found: dict[str, dict[int, Any]] = {}
    for number, text in enumerate(given):
        match = _FORM.fullmatch(text.replace(" ", ""))
        if match is None:
            raise DynamicOptionError(
                f"--dynamic: expected INPUT:DIM=MIN..MAX, as in ids:0,mask:0=1..256, got {text!r}"
            )
        least, most = int(match["min"]), int(match["max"])
        if not 1 <= least < most:
            raise DynamicOptionError(
                f"--dynamic: expected limits that grow from 1 on, got {least}..{most} in {text!r}"
            )
        name = "size" if len(given) == 1 else f"size{number}"
        size = torch.export.Dim(name, min=least, max=most)
        for place in match["inputs"].split(","):
            key, dim = place.split(":")
            if int(dim) in found.setdefault(key, {}):
                raise DynamicOptionError(f"--dynamic: expected {place} once, got it twice")
            found[key][int(dim)] = size
    return found


def told(shapes: Mapping[str, Mapping[int, Any]]) -> str:
    """Describe the dimensions in words."""
    return ", ".join(f"{name}:{dim}" for name, dims in shapes.items() for dim in dims)
