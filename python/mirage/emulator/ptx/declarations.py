"""Declarations of PTX: variables with initialisers, kernel parameters."""

from __future__ import annotations

import struct

from mirage.emulator.errors import PtxSyntaxError, UnknownInstructionError
from mirage.emulator.ptx.cursor import Cursor, number
from mirage.emulator.ptx.scope import Scope
from mirage.emulator.ptx.syntax import TYPE_BYTES, Kernel, Parameter, Variable

SPACES = {"shared", "local", "global", "const"}


def variables(c: Cursor, extern: bool) -> list[Variable]:
    """Parse a declaration such as `.shared .align 16 .b8 tile[64], other[32];`."""
    site = c.site()
    space = c.next().text[1:]
    align = 0
    kind = ""
    lanes = 1
    while c.token.text.startswith("."):
        word = c.next().text
        if word == ".align":
            align = c.integer()
        elif word in (".v2", ".v4"):
            lanes = int(word[2:])
        elif word == ".attribute":
            while not c.accept(")"):
                c.next()
        elif word[1:] in TYPE_BYTES:
            kind = word[1:]
        else:
            c.back()
            raise c.error("a type or .align")
    if not kind:
        raise c.error("a type")
    variables: list[Variable] = []
    while True:
        name = c.name("a variable name")
        count, unsized = lanes, False
        while c.accept("["):
            if c.accept("]"):
                unsized = True
                continue
            count *= c.integer()
            c.expect("]")
        initial = _initialiser(c, TYPE_BYTES[kind], kind) if c.accept("=") else None
        if unsized and not extern and initial is None:
            raise PtxSyntaxError(f"expected a size for {name!r}, got none", site=site)
        size = 0 if unsized else count * TYPE_BYTES[kind]
        if initial is not None:
            size = max(size, len(initial))
            initial = initial.ljust(size, b"\0")
        variables.append(
            Variable(name, space, align or TYPE_BYTES[kind], size, initial, extern and unsized)
        )
        if not c.accept(","):
            break
    c.expect(";")
    return variables


def _initialiser(c: Cursor, size: int, kind: str) -> bytes:
    if c.accept("{"):
        data = b""
        while not c.accept("}"):
            data += _initialiser(c, size, kind)
            if not c.accept(",") and c.token.text != "}":
                raise c.error("',' or '}'")
        return data
    negative = c.accept("-")
    if c.token.kind != "number":
        raise UnknownInstructionError(
            "expected numbers as initialiser, got a symbol", site=c.site()
        )
    value = number(c.next().text)
    value = -value if negative else value
    if isinstance(value, float):
        return struct.pack("<f" if size == 4 else "<d", value)
    return (value & ((1 << (8 * size)) - 1)).to_bytes(size, "little")


def parameters(c: Cursor, kernel: Kernel, scope: Scope) -> None:
    """Parse the list after a kernel's name, up to its closing parenthesis."""
    offset = 0
    while not c.accept(")"):
        c.expect(".param")
        align, kind, pointer = 0, "", False
        while c.token.text.startswith("."):
            word = c.next().text
            if word == ".align":
                value = c.integer()
                align = align if pointer else value
            elif word == ".ptr":
                pointer = True
            elif word[1:] in SPACES:
                continue
            elif word[1:] in TYPE_BYTES:
                kind = word[1:]
            else:
                c.back()
                raise c.error("a parameter type")
        name = c.name("a parameter name")
        size = TYPE_BYTES[kind] if kind else 0
        if c.accept("["):
            size *= c.integer()
            c.expect("]")
        if not size:
            raise c.error("a sized parameter")
        align = align or TYPE_BYTES[kind]
        offset = -(-offset // align) * align
        variable = Variable(name, "param", align, size, pointer=pointer, address=offset)
        scope.names[name] = variable
        kernel.parameters.append(Parameter(name, kind, size, align, offset, variable))
        offset += size
        if not c.accept(",") and c.token.text != ")":
            raise c.error("',' or ')'")
