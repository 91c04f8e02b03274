"""The option ``--chip`` of commands that compile. Other commands of the same script measure on a
machine with a GPU, which may have only the runtime: the table of chips is read only once it is
known that the command needs it.
"""

from __future__ import annotations

import argparse


def add_chip(parser: argparse.ArgumentParser) -> None:
    """Add the option to the parser of one command; without it the compiler's default is used."""
    # A default that is text is passed through `type`, but only if this parser is used.
    parser.add_argument("--chip", type=chip_in_table, default="", help="default: the compiler's")


def chip_in_table(name: str) -> str:
    """Return the name of a chip or a card in the table."""
    from mirage.cost.target import DEFAULT_CHIP, UnknownTargetError, name_in_table

    try:
        return name_in_table(name or DEFAULT_CHIP)
    except UnknownTargetError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
