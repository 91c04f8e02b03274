"""Names in PTX and the objects that they refer to."""

from __future__ import annotations

from mirage.emulator.ptx.syntax import Kernel, Register, Variable


class Scope:
    """Names of one `{ }` block; inline PTX brings its own registers and labels."""

    def __init__(self, parent: Scope | None, number: int) -> None:
        self.parent = parent
        self.number = number
        self.names: dict[str, Register | Variable] = {}
        self.ranges: dict[str, tuple[str, int]] = {}
        self.labels: dict[str, int] = {}
        self.tables: dict[str, tuple[str, ...]] = {}

    def lookup(self, kernel: Kernel, name: str) -> Register | Variable | None:
        """Return what a name refers to here; a register of a range is made when it is named for the
        first time."""
        found = self.names.get(name)
        if found is not None:
            return found
        stem = name.rstrip("0123456789")
        search: Scope | None = self
        while search is not None:
            if name in search.names:
                return search.names[name]
            if stem != name and stem in search.ranges:
                kind, count = search.ranges[stem]
                if int(name[len(stem) :]) < count:
                    register = new_register(kernel, name, kind)
                    search.names[name] = register
                    return register
            search = search.parent
        return None


def new_register(kernel: Kernel, name: str, kind: str) -> Register:
    """Return a register that is added to the kernel."""
    register = Register(name, kind, len(kernel.registers))
    kernel.registers.append(register)
    return register
