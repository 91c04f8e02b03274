"""Options of commands, made from the fields of dataclasses, which define type, default and help."""

from __future__ import annotations

import argparse
from dataclasses import MISSING, fields
from typing import Any, get_args, get_type_hints

_METAVARS = {"budget": "SECONDS", "time_limit": "SECONDS", "seconds": "SECONDS", "chip": "NAME"}


def add_option(
    parser: argparse._ActionsContainer,  # pyright: ignore[reportPrivateUsage]
    kind: type,
    name: str,
    flag: str | None = None,
    what: str = "",
) -> None:
    """Add the field ``name`` of the dataclass ``kind`` as ``--flag`` (the name unless given); its
    help begins with ``what``.

    If the field is true by default, the option is ``--no-flag``. An option that is not given has
    the field's default, or None if a function makes that default.
    """
    (field,) = (f for f in fields(kind) if f.name == name)
    flag = (flag or name).replace("_", "-")
    what += field.metadata["help"]
    unset: str = field.metadata.get("unset", "")
    hint = get_type_hints(kind)[name]
    inner = next((t for t in get_args(hint) if t is not type(None)), hint)
    if inner is bool:
        off = field.default is True
        parser.add_argument(
            f"--no-{flag}" if off else f"--{flag}",
            dest=name,
            action="store_false" if off else "store_true",
            default=field.default,
            help=f"do not {what}" if off else f"{what} (default: {unset})" if unset else what,
        )
        return
    default: Any = None if field.default is MISSING else field.default
    shown = unset if default is None else f"{default:g}" if isinstance(default, float) else default
    parser.add_argument(
        f"--{flag}",
        dest=name,
        type=inner,
        default=default,
        metavar=_METAVARS.get(name, "N"),
        help=f"{what} (default: {shown})",
    )
