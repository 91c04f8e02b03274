"""Parses the PTX subset that the pipeline emits, inline PTX included."""

from __future__ import annotations

import struct

from mirage.emulator.errors import PtxSyntaxError, Site, UnknownInstructionError
from mirage.emulator.lexer import Token, tokenise
from mirage.emulator.syntax import (
    TYPE_BYTES,
    Address,
    Immediate,
    Instruction,
    Kernel,
    LabelRef,
    Module,
    Negated,
    Operand,
    Pair,
    Parameter,
    Register,
    Sink,
    Special,
    Variable,
    VariableRef,
    Vector,
)

_SPECIAL_ROOTS = {
    "tid", "ntid", "ctaid", "nctaid", "laneid", "warpid", "nwarpid", "clock", "clock64", "clock_hi",
    "globaltimer", "globaltimer_lo", "globaltimer_hi", "lanemask_eq", "lanemask_le", "lanemask_lt",
    "lanemask_ge", "lanemask_gt", "smid", "nsmid", "gridid", "clusterid", "nclusterid",
    "cluster_ctaid", "cluster_nctaid", "cluster_ctarank", "cluster_nctarank", "is_explicit_cluster",
    "total_smem_size", "dynamic_smem_size", "aggr_smem_size",
}  # fmt: skip
_SPACES = {"shared", "local", "global", "const"}
_LINKAGE = {".visible", ".extern", ".weak", ".common"}
_LIST_DIRECTIVES = {
    "maxntid", "reqntid", "minnctapersm", "maxnctapersm", "maxnreg", "reqnctapercluster",
    "maxclusterrank", "explicitcluster", "noreturn",
}  # fmt: skip


class _Scope:
    """Names of one `{ }` block; inline PTX brings its own registers and labels."""

    def __init__(self, parent: _Scope | None, number: int) -> None:
        self.parent = parent
        self.number = number
        self.names: dict[str, Register | Variable] = {}
        self.ranges: dict[str, tuple[str, int]] = {}
        self.labels: dict[str, int] = {}
        self.tables: dict[str, tuple[str, ...]] = {}


class Parser:
    """A recursive-descent parser over the tokens of one module."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        self._tokens = tokenise(text)
        self._at = 0
        self._files: dict[int, str] = {}
        self._location: str | None = None
        self._module_names: dict[str, Variable] = {}
        self._fixups: list[tuple[Instruction, int, str, _Scope, Site]] = []

    # -- tokens ---------------------------------------------------------------------------------

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    def _site(self, line: int | None = None) -> Site:
        line = self._token.line if line is None else line
        text = self._lines[line - 1].strip() if 0 < line <= len(self._lines) else ""
        return Site(line, text, self._location)

    def _error(self, expected: str) -> PtxSyntaxError:
        actual = repr(self._token.text) if self._token.kind != "end" else "the end of the text"
        return PtxSyntaxError(f"expected {expected}, got {actual}", site=self._site())

    def _next(self) -> Token:
        token = self._token
        if token.kind != "end":
            self._at += 1
        return token

    def _accept(self, text: str) -> bool:
        if self._token.text == text and self._token.kind != "string":
            self._at += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self._error(repr(text))

    def _name(self, what: str) -> str:
        if self._token.kind != "name":
            raise self._error(what)
        return self._next().text

    def _integer(self) -> int:
        negative = self._accept("-")
        if self._token.kind != "number":
            raise self._error("an integer")
        value = _number(self._next().text)
        if isinstance(value, float):
            self._at -= 1
            raise self._error("an integer")
        return -value if negative else value

    def _skip_line(self) -> list[Token]:
        line = self._token.line
        skipped: list[Token] = []
        while self._token.line == line and self._token.kind != "end":
            skipped.append(self._next())
        return skipped

    # -- module scope ---------------------------------------------------------------------------

    def parse(self) -> Module:
        version = target = ""
        kernels: dict[str, Kernel] = {}
        variables: list[Variable] = []
        while self._token.kind != "end":
            token = self._token
            linkage = ""
            while self._token.text in _LINKAGE:
                linkage = self._next().text
            head = self._token.text
            if head in (".version", ".target", ".address_size"):
                rest = self._skip_line()
                value = rest[1].text if len(rest) > 1 else ""
                if head == ".version":
                    version = value
                elif head == ".target":
                    target = value
                elif value != "64":
                    raise PtxSyntaxError(
                        f"expected 64-bit addresses, got {value!r}", site=self._site(token.line)
                    )
            elif head == ".file":
                self._file()
            elif head == ".entry":
                kernel = self._entry()
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
                while not self._accept(";"):
                    self._next()
            elif head.startswith(".") and head[1:] in _SPACES:
                for variable in self._variable(linkage == ".extern"):
                    variables.append(variable)
                    self._module_names[variable.name] = variable
            else:
                raise self._error("a module-scope directive")
        if not version or not target:
            raise PtxSyntaxError("expected .version and .target directives, got none")
        return Module(version, target, kernels, variables)

    def _file(self) -> None:
        rest = self._skip_line()
        if len(rest) >= 3:
            self._files[int(rest[1].text)] = rest[2].text.strip('"')

    def _function_declaration(self) -> None:
        """Declarations are fine (an unused vprintf); device functions with a body are inlined by
        the compiler and so are not in the subset."""
        site = self._site()
        while self._token.kind != "end":
            if self._token.text == "{":
                raise UnknownInstructionError(
                    "expected device functions to be inlined, got a .func with a body", site=site
                )
            if self._next().text == ";":
                return

    def _skip_section(self) -> None:
        while self._token.kind != "end" and self._next().text != "{":
            pass
        while self._token.kind != "end" and self._next().text != "}":
            pass

    def _variable(self, extern: bool) -> list[Variable]:
        site = self._site()
        space = self._next().text[1:]
        align = 0
        kind = ""
        lanes = 1
        while self._token.text.startswith("."):
            word = self._next().text
            if word == ".align":
                align = self._integer()
            elif word in (".v2", ".v4"):
                lanes = int(word[2:])
            elif word == ".attribute":
                while not self._accept(")"):
                    self._next()
            elif word[1:] in TYPE_BYTES:
                kind = word[1:]
            else:
                self._at -= 1
                raise self._error("a type or .align")
        if not kind:
            raise self._error("a type")
        variables: list[Variable] = []
        while True:
            name = self._name("a variable name")
            count, unsized = lanes, False
            while self._accept("["):
                if self._accept("]"):
                    unsized = True
                    continue
                count *= self._integer()
                self._expect("]")
            initial = self._initialiser(TYPE_BYTES[kind], kind) if self._accept("=") else None
            if unsized and not extern and initial is None:
                raise PtxSyntaxError(f"expected a size for {name!r}, got none", site=site)
            size = 0 if unsized else count * TYPE_BYTES[kind]
            if initial is not None:
                size = max(size, len(initial))
                initial = initial.ljust(size, b"\0")
            variables.append(
                Variable(name, space, align or TYPE_BYTES[kind], size, initial, extern and unsized)
            )
            if not self._accept(","):
                break
        self._expect(";")
        return variables

    def _initialiser(self, size: int, kind: str) -> bytes:
        if self._accept("{"):
            data = b""
            while not self._accept("}"):
                data += self._initialiser(size, kind)
                if not self._accept(",") and self._token.text != "}":
                    raise self._error("',' or '}'")
            return data
        negative = self._accept("-")
        if self._token.kind != "number":
            raise UnknownInstructionError(
                "expected numbers as initialiser, got a symbol", site=self._site()
            )
        value = _number(self._next().text)
        value = -value if negative else value
        if isinstance(value, float):
            return struct.pack("<f" if size == 4 else "<d", value)
        return (value & ((1 << (8 * size)) - 1)).to_bytes(size, "little")

    # -- kernels --------------------------------------------------------------------------------

    def _entry(self) -> Kernel:
        site = self._site()
        self._expect(".entry")
        kernel = Kernel(self._name("a kernel name"), site)
        scope = _Scope(None, 0)
        if self._accept("("):
            self._parameters(kernel, scope)
        while self._token.text != "{":
            word = self._name("a performance directive or '{'")
            if word == ".pragma":
                while not self._accept(";"):
                    self._next()
                continue
            if word[1:] not in _LIST_DIRECTIVES:
                self._at -= 1
                raise self._error("a performance directive")
            values: list[int] = []
            while self._token.kind == "number":
                values.append(self._integer())
                if not self._accept(","):
                    break
            kernel.directives[word[1:]] = tuple(values)
        self._location = None
        self._next()
        self._fixups = []
        self._body(kernel, scope)
        for instruction, position, name, where, fixup_site in self._fixups:
            unique = self._resolve(kernel, instruction, name, where, fixup_site)
            operands = list(instruction.operands)
            operands[position] = LabelRef(unique)
            instruction.operands = tuple(operands)
        self._location = None
        return kernel

    def _resolve(
        self, kernel: Kernel, instruction: Instruction, name: str, where: _Scope, site: Site
    ) -> str:
        """The module-wide name of a label; of a jump table, whose labels go to the instruction."""
        search: _Scope | None = where
        while search is not None and name not in search.labels and name not in search.tables:
            search = search.parent
        if search is None:
            raise PtxSyntaxError(f"expected a declared name, got {name!r}", site=site)
        unique = f"{name}@{search.number}"
        if name in search.tables:
            targets = search.tables[name]
            instruction.jump_table = tuple(
                self._resolve(kernel, instruction, target, search, site) for target in targets
            )
        else:
            kernel.labels[unique] = search.labels[name]
        return unique

    def _parameters(self, kernel: Kernel, scope: _Scope) -> None:
        offset = 0
        while not self._accept(")"):
            self._expect(".param")
            align, kind, pointer = 0, "", False
            while self._token.text.startswith("."):
                word = self._next().text
                if word == ".align":
                    value = self._integer()
                    align = align if pointer else value
                elif word == ".ptr":
                    pointer = True
                elif word[1:] in _SPACES:
                    continue
                elif word[1:] in TYPE_BYTES:
                    kind = word[1:]
                else:
                    self._at -= 1
                    raise self._error("a parameter type")
            name = self._name("a parameter name")
            size = TYPE_BYTES[kind] if kind else 0
            if self._accept("["):
                size *= self._integer()
                self._expect("]")
            if not size:
                raise self._error("a sized parameter")
            align = align or TYPE_BYTES[kind]
            offset = -(-offset // align) * align
            variable = Variable(name, "param", align, size, pointer=pointer, address=offset)
            scope.names[name] = variable
            kernel.parameters.append(Parameter(name, kind, size, align, offset, variable))
            offset += size
            if not self._accept(",") and self._token.text != ")":
                raise self._error("',' or ')'")

    def _body(self, kernel: Kernel, outer: _Scope) -> None:
        scope: _Scope | None = outer
        scopes = 0
        while scope is not None:
            token = self._token
            if token.kind == "end":
                raise self._error("'}'")
            if self._accept("{"):
                scopes += 1
                scope = _Scope(scope, scopes)
            elif self._accept("}"):
                scope = scope.parent
            elif self._accept(";"):
                continue
            elif token.text == ".loc":
                self._loc()
            elif token.text == ".file":
                self._file()
            elif token.text == ".reg":
                self._registers(kernel, scope)
            elif token.text == ".pragma":
                while not self._accept(";"):
                    self._next()
            elif token.text.startswith(".") and token.text[1:] in _SPACES:
                for variable in self._variable(False):
                    kernel.variables.append(variable)
                    scope.names[variable.name] = variable
            elif token.kind == "name" and self._tokens[self._at + 1].text == ":":
                if token.text in scope.labels:
                    raise PtxSyntaxError(
                        f"expected one label {token.text!r}, got two", site=self._site()
                    )
                self._at += 2
                if self._accept(".branchtargets"):
                    scope.tables[token.text] = self._branch_targets()
                else:
                    scope.labels[token.text] = len(kernel.body)
            elif token.text == "@" or (token.kind == "name" and not token.text.startswith(".")):
                self._instruction(kernel, scope)
            else:
                raise self._error("an instruction, label or declaration")

    def _branch_targets(self) -> tuple[str, ...]:
        names = [self._name("a label")]
        while self._accept(","):
            names.append(self._name("a label"))
        self._expect(";")
        return tuple(names)

    def _loc(self) -> None:
        rest = self._skip_line()
        if len(rest) >= 4:
            name = self._files.get(int(rest[1].text), f"file {rest[1].text}")
            self._location = f"{name}:{rest[2].text}:{rest[3].text}"

    def _registers(self, kernel: Kernel, scope: _Scope) -> None:
        self._next()
        kind = self._name("a register type")[1:]
        if kind not in TYPE_BYTES:
            self._at -= 1
            raise self._error("a register type")
        while True:
            name = self._name("a register name")
            if self._accept("<"):
                scope.ranges[name] = (kind, self._integer())
                self._expect(">")
            else:
                scope.names[name] = self._register(kernel, name, kind)
            if not self._accept(","):
                break
        self._expect(";")

    @staticmethod
    def _register(kernel: Kernel, name: str, kind: str) -> Register:
        register = Register(name, kind, len(kernel.registers))
        kernel.registers.append(register)
        return register

    def _lookup(self, kernel: Kernel, scope: _Scope, name: str) -> Register | Variable | None:
        stem = name.rstrip("0123456789")
        search: _Scope | None = scope
        while search is not None:
            if name in search.names:
                return search.names[name]
            if stem != name and stem in search.ranges:
                kind, count = search.ranges[stem]
                if int(name[len(stem) :]) < count:
                    register = self._register(kernel, name, kind)
                    search.names[name] = register
                    return register
            search = search.parent
        return self._module_names.get(name)

    # -- instructions ---------------------------------------------------------------------------

    def _instruction(self, kernel: Kernel, scope: _Scope) -> None:
        site = self._site()
        guard: Register | None = None
        negated = False
        if self._accept("@"):
            negated = self._accept("!")
            found = self._lookup(kernel, scope, self._name("a predicate register"))
            if not isinstance(found, Register) or found.type != "pred":
                self._at -= 1
                raise self._error("a predicate register")
            guard = found
        opcode, *modifiers = self._name("an opcode").split(".")
        instruction = Instruction(
            opcode, tuple(modifiers), (), guard, negated, site, len(kernel.body)
        )
        operands: list[Operand] = []
        if opcode == "call":
            raise UnknownInstructionError(
                "expected device functions to be inlined, got a call", site=site
            )
        while not self._accept(";"):
            if operands and not self._accept(","):
                raise self._error("',' or ';'")
            operands.append(self._operand(kernel, scope, instruction, len(operands)))
        instruction.operands = tuple(operands)
        kernel.body.append(instruction)

    def _operand(
        self, kernel: Kernel, scope: _Scope, instruction: Instruction, position: int
    ) -> Operand:
        operand = self._simple_operand(kernel, scope, instruction, position)
        if self._accept("|"):
            return Pair(operand, self._simple_operand(kernel, scope, instruction, -1))
        return operand

    def _simple_operand(
        self, kernel: Kernel, scope: _Scope, instruction: Instruction, position: int
    ) -> Operand:
        token = self._token
        if token.text == "[":
            return self._address(kernel, scope, instruction)
        if token.text == "{":
            self._next()
            items: list[Operand] = []
            while not self._accept("}"):
                items.append(self._simple_operand(kernel, scope, instruction, -1))
                if not self._accept(",") and self._token.text != "}":
                    raise self._error("',' or '}'")
            return Vector(tuple(items))
        if token.text == "!":
            self._next()
            found = self._lookup(kernel, scope, self._name("a predicate register"))
            if not isinstance(found, Register) or found.type != "pred":
                self._at -= 1
                raise self._error("a predicate register")
            return Negated(found)
        if token.text in ("-", "+"):
            self._next()
            if self._token.kind != "number":
                raise self._error("a number")
            value = _number(self._next().text)
            return Immediate(-value if token.text == "-" else value)
        if token.kind == "number":
            self._next()
            return Immediate(_number(token.text))
        if token.text == "_":
            self._next()
            return Sink()
        name = self._name("an operand")
        found = self._lookup(kernel, scope, name)
        if isinstance(found, Register):
            return found
        if isinstance(found, Variable):
            offset = 0
            while self._token.text in ("+", "-"):
                sign = -1 if self._next().text == "-" else 1
                offset += sign * self._integer()
            return VariableRef(found, offset)
        if name == "WARP_SZ":
            return Immediate(32)
        if name.startswith("%") and name[1:].split(".")[0] in _SPECIAL_ROOTS:
            return Special(name[1:])
        if name.startswith("%") or position < 0:
            self._at -= 1
            raise self._error("a declared name")
        self._fixups.append((instruction, position, name, scope, self._site(token.line)))
        return LabelRef(name)

    def _address(self, kernel: Kernel, scope: _Scope, instruction: Instruction) -> Address:
        self._expect("[")
        base = self._simple_operand(kernel, scope, instruction, -1)
        offset = 0
        while self._token.text in ("+", "-"):
            sign = -1 if self._next().text == "-" else 1
            offset += sign * self._integer()
        if isinstance(base, VariableRef) and base.offset:
            offset, base = offset + base.offset, VariableRef(base.variable)
        extra: list[Operand] = []
        while self._accept(","):
            extra.append(self._simple_operand(kernel, scope, instruction, -1))
        self._expect("]")
        return Address(base, offset, tuple(extra))


def _number(text: str) -> int | float:
    if text[:2] in ("0f", "0F"):
        return struct.unpack(">f", bytes.fromhex(text[2:]))[0]
    if text[:2] in ("0d", "0D"):
        return struct.unpack(">d", bytes.fromhex(text[2:]))[0]
    text = text.rstrip("U")
    if text[:2] in ("0x", "0X"):
        return int(text, 16)
    if text[:2] in ("0b", "0B"):
        return int(text, 2)
    if any(c in text for c in ".eE"):
        return float(text)
    if len(text) > 1 and text[0] == "0":
        return int(text, 8)
    return int(text)


def parse(text: str) -> Module:
    """The module in `text`. Raises PtxSyntaxError or UnknownInstructionError, quoting the line."""
    return Parser(text).parse()
