"""Parses one kernel: directives, registers, labels, instructions and their operands."""

from __future__ import annotations

from mirage.emulator.errors import PtxSyntaxError, Site, UnknownInstructionError
from mirage.emulator.ptx.cursor import Cursor, number
from mirage.emulator.ptx.declarations import SPACES, parameters, variables
from mirage.emulator.ptx.lexer import Token
from mirage.emulator.ptx.scope import Scope, new_register
from mirage.emulator.ptx.syntax import (
    TYPE_BYTES,
    Address,
    Immediate,
    Instruction,
    Kernel,
    LabelRef,
    Negated,
    Operand,
    Pair,
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
_LIST_DIRECTIVES = {
    "maxntid", "reqntid", "minnctapersm", "maxnctapersm", "maxnreg", "reqnctapercluster",
    "maxclusterrank", "explicitcluster", "noreturn",
}  # fmt: skip


class KernelParser:
    """A recursive-descent parser of an `.entry`; the module's variables are in scope."""

    def __init__(self, cursor: Cursor, module: dict[str, Variable]) -> None:
        self._c = cursor
        self._module = module
        self._fixups: list[tuple[Instruction, int, str, Scope, Site]] = []

    def parse(self) -> Kernel:
        """Return the kernel that starts here."""
        c = self._c
        site = c.site()
        c.expect(".entry")
        kernel = Kernel(c.name("a kernel name"), site)
        scope = Scope(None, 0)
        if c.accept("("):
            parameters(c, kernel, scope)
        while c.token.text != "{":
            word = c.name("a performance directive or '{'")
            if word == ".pragma":
                c.skip_pragma()
                continue
            if word[1:] not in _LIST_DIRECTIVES:
                c.back()
                raise c.error("a performance directive")
            values: list[int] = []
            while c.token.kind == "number":
                values.append(c.integer())
                if not c.accept(","):
                    break
            kernel.directives[word[1:]] = tuple(values)
        c.location = None
        c.next()
        self._body(kernel, scope)
        for instruction, position, name, where, fixup_site in self._fixups:
            unique = self._resolve(kernel, instruction, name, where, fixup_site)
            operands = list(instruction.operands)
            operands[position] = LabelRef(unique)
            instruction.operands = tuple(operands)
        c.location = None
        return kernel

    def _resolve(
        self, kernel: Kernel, instruction: Instruction, name: str, where: Scope, site: Site
    ) -> str:
        """Return the module-wide name of a label; for a jump table, its labels become a part of the
        instruction."""
        search: Scope | None = where
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

    def _body(self, kernel: Kernel, outer: Scope) -> None:
        c = self._c
        scope = outer
        scopes = 0
        while True:
            token = c.token
            if token.text == "@" or (token.kind == "name" and token.text[0] != "."):
                self._label_or_instruction(kernel, scope)
            elif token.kind == "end":
                raise c.error("'}'")
            elif c.accept("{"):
                scopes += 1
                scope = Scope(scope, scopes)
            elif c.accept("}"):
                if scope.parent is None:
                    return
                scope = scope.parent
            elif c.accept(";"):
                continue
            elif token.text == ".loc":
                self._loc()
            elif token.text == ".file":
                c.skip_line()
            elif token.text == ".reg":
                self._registers(kernel, scope)
            elif token.text == ".pragma":
                c.skip_pragma()
            elif token.text.startswith(".") and token.text[1:] in SPACES:
                for variable in variables(c, False):
                    kernel.variables.append(variable)
                    scope.names[variable.name] = variable
            else:
                raise c.error("an instruction, label or declaration")

    def _label_or_instruction(self, kernel: Kernel, scope: Scope) -> None:
        c = self._c
        if c.token.kind != "name" or c.following.text != ":":
            self._instruction(kernel, scope)
            return
        label = c.token.text
        if label in scope.labels:
            raise PtxSyntaxError(f"expected one label {label!r}, got two", site=c.site())
        c.next()
        c.next()
        if c.accept(".branchtargets"):
            scope.tables[label] = self._branch_targets()
        else:
            scope.labels[label] = len(kernel.body)

    def _branch_targets(self) -> tuple[str, ...]:
        c = self._c
        names = [c.name("a label")]
        while c.accept(","):
            names.append(c.name("a label"))
        c.expect(";")
        return tuple(names)

    def _loc(self) -> None:
        c = self._c
        rest = c.skip_line()
        if len(rest) >= 4:
            name = c.files.get(int(rest[1].text), f"file {rest[1].text}")
            c.location = f"{name}:{rest[2].text}:{rest[3].text}"

    def _registers(self, kernel: Kernel, scope: Scope) -> None:
        c = self._c
        c.next()
        kind = c.name("a register type")[1:]
        if kind not in TYPE_BYTES:
            c.back()
            raise c.error("a register type")
        while True:
            name = c.name("a register name")
            count = 1
            if c.accept("<"):
                count = c.integer()
                scope.ranges[name] = (kind, count)
                c.expect(">")
            else:
                scope.names[name] = new_register(kernel, name, kind)
            kernel.declared[kind] = kernel.declared.get(kind, 0) + count
            if not c.accept(","):
                break
        c.expect(";")

    def _lookup(self, kernel: Kernel, scope: Scope, name: str) -> Register | Variable | None:
        return scope.lookup(kernel, name) or self._module.get(name)

    def _instruction(self, kernel: Kernel, scope: Scope) -> None:
        c = self._c
        site = c.site()
        guard: Register | None = None
        negated = False
        if c.accept("@"):
            negated = c.accept("!")
            found = self._lookup(kernel, scope, c.name("a predicate register"))
            if not isinstance(found, Register) or found.type != "pred":
                c.back()
                raise c.error("a predicate register")
            guard = found
        opcode, *modifiers = c.name("an opcode").split(".")
        instruction = Instruction(
            opcode, tuple(modifiers), (), guard, negated, site, len(kernel.body)
        )
        operands: list[Operand] = []
        if opcode == "call":
            raise UnknownInstructionError(
                "expected device functions to be inlined, got a call", site=site
            )
        while not c.accept(";"):
            if operands and not c.accept(","):
                raise c.error("',' or ';'")
            operands.append(self._operand(kernel, scope, instruction, len(operands)))
        instruction.operands = tuple(operands)
        kernel.body.append(instruction)

    def _operand(
        self, kernel: Kernel, scope: Scope, instruction: Instruction, position: int
    ) -> Operand:
        c = self._c
        operand = self._simple_operand(kernel, scope, instruction, position)
        if c.accept("|"):
            return Pair(operand, self._simple_operand(kernel, scope, instruction, -1))
        return operand

    def _simple_operand(
        self, kernel: Kernel, scope: Scope, instruction: Instruction, position: int
    ) -> Operand:
        c = self._c
        token = c.token
        if token.kind == "name":
            c.next()
            found = scope.names.get(token.text)
            if isinstance(found, Register):  # the most frequent case
                return found
            return self._named(kernel, scope, instruction, position, token)
        if token.text == "[":
            return self._address(kernel, scope, instruction)
        if token.text == "{":
            c.next()
            items: list[Operand] = []
            while not c.accept("}"):
                items.append(self._simple_operand(kernel, scope, instruction, -1))
                if not c.accept(",") and c.token.text != "}":
                    raise c.error("',' or '}'")
            return Vector(tuple(items))
        if token.text == "!":
            c.next()
            found = self._lookup(kernel, scope, c.name("a predicate register"))
            if not isinstance(found, Register) or found.type != "pred":
                c.back()
                raise c.error("a predicate register")
            return Negated(found)
        if token.text in ("-", "+"):
            c.next()
            if c.token.kind != "number":
                raise c.error("a number")
            value = number(c.next().text)
            return Immediate(-value if token.text == "-" else value)
        if token.kind == "number":
            c.next()
            return Immediate(number(token.text))
        raise c.error("an operand")

    def _named(
        self, kernel: Kernel, scope: Scope, instruction: Instruction, position: int, token: Token
    ) -> Operand:
        """Return what the name `token`, which has been read, refers to."""
        c = self._c
        name = token.text
        if name == "_":
            return Sink()
        found = self._lookup(kernel, scope, name)
        if isinstance(found, Register):
            return found
        if isinstance(found, Variable):
            offset = 0
            while c.token.text in ("+", "-"):
                sign = -1 if c.next().text == "-" else 1
                offset += sign * c.integer()
            return VariableRef(found, offset)
        if name == "WARP_SZ":
            return Immediate(32)
        if name.startswith("%") and name[1:].split(".")[0] in _SPECIAL_ROOTS:
            return Special(name[1:])
        if name.startswith("%") or position < 0:
            c.back()
            raise c.error("a declared name")
        self._fixups.append((instruction, position, name, scope, c.site(token.line)))
        return LabelRef(name)

    def _address(self, kernel: Kernel, scope: Scope, instruction: Instruction) -> Address:
        c = self._c
        c.expect("[")
        base = self._simple_operand(kernel, scope, instruction, -1)
        offset = 0
        while c.token.text in ("+", "-"):
            sign = -1 if c.next().text == "-" else 1
            offset += sign * c.integer()
        if isinstance(base, VariableRef) and base.offset:
            offset, base = offset + base.offset, VariableRef(base.variable)
        extra: list[Operand] = []
        while c.accept(","):
            extra.append(self._simple_operand(kernel, scope, instruction, -1))
        c.expect("]")
        return Address(base, offset, tuple(extra))
