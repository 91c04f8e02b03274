"""Parses the PTX subset that the pipeline emits, inline PTX included."""

from __future__ import annotations

from mirage.emulator.errors import PtxSyntaxError, UnknownInstructionError
from mirage.emulator.ptx.cursor import Cursor
from mirage.emulator.ptx.declarations import SPACES, variables
from mirage.emulator.ptx.kernel_parser import KernelParser
from mirage.emulator.ptx.syntax import Kernel, Module, Variable

_LINKAGE = {".visible", ".extern", ".weak", ".common"}


class Parser:
    """A recursive-descent parser over the tokens of one module."""

    def __init__(self, text: str) -> None:
        self._c = Cursor(text)

    def parse(self) -> Module:
        """Return the module."""
        c = self._c
        version = target = ""
        kernels: dict[str, Kernel] = {}
        declared: list[Variable] = []
        names: dict[str, Variable] = {}
        while c.token.kind != "end":
            token = c.token
            linkage = ""
            while c.token.text in _LINKAGE:
                linkage = c.next().text
            head = c.token.text
            if head in (".version", ".target", ".address_size"):
                rest = c.skip_line()
                value = rest[1].text if len(rest) > 1 else ""
                if head == ".version":
                    version = value
                elif head == ".target":
                    target = value
                elif value != "64":
                    raise PtxSyntaxError(
                        f"expected 64-bit addresses, got {value!r}", site=c.site(token.line)
                    )
            elif head == ".file":
                c.skip_line()
            elif head == ".entry":
                kernel = KernelParser(c, names).parse()
                if kernel.name in kernels:
                    raise PtxSyntaxError(
                        f"expected one kernel named {kernel.name!r}, got two", site=kernel.site
                    )
                kernels[kernel.name] = kernel
            elif head == ".func":
                self._function_declaration()
            elif head == ".section":
                self._skip_section()
            elif head == ".pragma":
                c.skip_pragma()
            elif head.startswith(".") and head[1:] in SPACES:
                for variable in variables(c, linkage == ".extern"):
                    declared.append(variable)
                    names[variable.name] = variable
            else:
                raise c.error("a module-scope directive")
        if not version or not target:
            raise PtxSyntaxError("expected .version and .target directives, got none")
        return Module(version, target, kernels, declared)

    def _function_declaration(self) -> None:
        """Declarations are fine (an unused vprintf); device functions with a body are inlined by
        the compiler and so are not in the subset."""
        c = self._c
        site = c.site()
        while c.token.kind != "end":
            if c.token.text == "{":
                raise UnknownInstructionError(
                    "expected device functions to be inlined, got a .func with a body", site=site
                )
            if c.next().text == ";":
                return

    def _skip_section(self) -> None:
        c = self._c
        while c.token.kind != "end" and c.next().text != "{":
            pass
        while c.token.kind != "end" and c.next().text != "}":
            pass


def parse(text: str) -> Module:
    """Return the module in `text`. Raises PtxSyntaxError or UnknownInstructionError, quoting the
    line."""
    return Parser(text).parse()
