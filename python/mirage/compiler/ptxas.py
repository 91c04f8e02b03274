"""The assembler, if it is installed: machine code ahead of time, and its remarks on the code.

Nothing requires ptxas: the driver compiles PTX when an artifact is loaded. If it is on the PATH (or
``MIRAGE_PTXAS`` names it), artifacts also get machine code, and its remarks on spills and
serialised tensor-core instructions are reported.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mirage.compiler.errors import PtxasError

MOST_REGISTERS = 255
"""The registers that the instruction set can address."""
WHOLE_UNITS = MOST_REGISTERS // 8 * 8
"""The most registers in whole units of 8, in which they are allocated."""
REGISTER_FILE = 65536
"""The registers of a multiprocessor, on all chips that we compile for. Each of its four partitions
has a quarter of them and every fourth warp, so a block of 9 warps needs as many as one of 12."""
_FULL_ROW = 128
"""The threads of one warp in each partition."""
_WAITING, _FEW_SPILLED = 1024, 32
"""The threads of a multiprocessor for which kernels request room whose blocks wait for other ones,
and the bytes that may be spilled for it: LayerNorm of 262,144 columns in clusters of 16 takes 174
µs with 8 bytes spilled and 221 with fewer blocks at once."""
_ELF = struct.Struct("<16sHHIQQQIHHHHHH")
"""The header of an ELF file of 64 bits."""
_SERIALIZED = re.compile(r"C75(?:09|1\d|20)\b")
"""The codes of remarks on tensor-core instructions that wait for each other."""
_NAMED = re.compile(r"\bfunction '?([A-Za-z_$][\w$]*)")
"""The function that a remark or an error is about."""


@dataclass(frozen=True)
class EntryUsage:
    """A kernel's use of a multiprocessor: registers of a thread, and static shared memory and
    spills in bytes.
    """

    name: str
    registers: int
    shared_bytes: int
    spill_stores: int
    spill_loads: int
    stack_bytes: int


@dataclass(frozen=True)
class AssemblerReport:
    """Machine code, and the assembler's remarks."""

    version: str
    cubin: bytes
    entries: tuple[EntryUsage, ...]
    warnings: tuple[str, ...]

    @property
    def spills(self) -> tuple[EntryUsage, ...]:
        """The kernels whose registers did not suffice."""
        return tuple(e for e in self.entries if e.spill_stores or e.spill_loads)

    @property
    def spilled(self) -> int:
        """The bytes of registers that are spilled, in all kernels."""
        return sum(e.spill_stores + e.spill_loads for e in self.entries)

    @property
    def serialized(self) -> tuple[str, ...]:
        """The warnings about tensor-core instructions that wait for each other."""
        return tuple(w for w in self.warnings if _SERIALIZED.search(w))


def find_ptxas() -> str | None:
    """Return the path of the assembler, or None."""
    return os.environ.get("MIRAGE_PTXAS") or shutil.which("ptxas")


@cache
def ptxas_version(path: str) -> str:
    """Return the release number, such as ``13.0``; "unknown" if it cannot be determined."""
    try:
        run = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=60, check=False
        )
    except OSError:
        return "unknown"
    match = re.search(r"release (\d+\.\d+)", run.stdout)
    return match[1] if match else "unknown"


def assemble(ptx: str, chip: str) -> AssemblerReport | None:
    """Return machine code for ``chip``; None if there is no assembler, or one too old for this PTX.

    Raises :class:`PtxasError` if it rejects the code, and ``OSError`` if there is no room for its
    files.
    """
    path = find_ptxas()
    if path is None:
        return None
    with tempfile.TemporaryDirectory(prefix="mirage-") as folder:
        source, target = Path(folder, "kernels.ptx"), Path(folder, "kernels.cubin")
        source.write_text(ptx, encoding="utf-8")
        command = [path, f"-arch={chip}", "-O3", "-v", str(source), "-o", str(target)]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        except (OSError, subprocess.TimeoutExpired) as e:
            raise PtxasError(f"{path} could not be run: {e}") from None
        output = run.stdout + run.stderr
        if run.returncode != 0:
            if "Unsupported .version" in output or "is not defined for option 'gpu-name'" in output:
                return None
            if re.search("Output file .* could not be opened", output):
                raise OSError("its output could not be opened")
            said = [line for line in output.splitlines() if "error" in line or "fatal" in line]
            raise PtxasError(
                f"{path} rejects the generated code for "
                f"{chip}:\n{output.replace(folder + '/', '').strip()}",
                functions_in(said),
            )
        entries, warnings = parse_output(output)
        return AssemblerReport(ptxas_version(path), _whole(target), entries, warnings)


def _whole(file: Path) -> bytes:
    """Return the contents of an ELF file that ptxas has written. It does not notice that
    a disk is full; raises ``OSError`` if the file ends before its tables of segments and sections,
    which come last."""
    data = file.read_bytes() if file.exists() else b""
    if len(data) >= _ELF.size:
        *_, segments, sections, _, _, size, count, each, number, _ = _ELF.unpack_from(data)
        if len(data) >= max(segments + size * count, sections + each * number):
            return data
    raise OSError("its output is cut off")


def parse_output(output: str) -> tuple[tuple[EntryUsage, ...], tuple[str, ...]]:
    """Return resource usage by kernel and warnings, from the output of ``ptxas -v``."""
    entries: list[EntryUsage] = []
    warnings: list[str] = []
    name = ""
    frame = (0, 0, 0)
    for line in output.splitlines():
        if match := re.search(r"Compiling entry function '([^']+)'", line):
            name, frame = match[1], (0, 0, 0)
        elif match := re.search(
            r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line
        ):
            frame = (int(match[1]), int(match[2]), int(match[3]))
        elif match := re.search(r"Used (\d+) registers", line):
            shared = re.search(r"(\d+) bytes smem", line)
            entries.append(
                EntryUsage(
                    name,
                    int(match[1]),
                    int(shared[1]) if shared else 0,
                    frame[1],
                    frame[2],
                    frame[0],
                )
            )
        elif "warning" in line or "Potential Performance Loss" in line:
            warnings.append(line.strip())
    return tuple(entries), tuple(warnings)


def functions_in(remarks: Iterable[str]) -> tuple[str, ...]:
    """Return the functions that some of the assembler's remarks and errors name, each once."""
    return tuple(dict.fromkeys(name for line in remarks for name in _NAMED.findall(line)))


def ask_for_registers(
    ptx: str, entries: tuple[EntryUsage, ...], most: int = MOST_REGISTERS
) -> str | None:
    """Return ``ptx`` with a `.maxnreg` for each kernel that spills although its block size allows
    another number of registers, up to ``most``.

    ptxas spills in this way to fit one more block on a multiprocessor, or to fit several as the
    kernel requests (that directive is then removed, unless blocks wait for others and few bytes are
    spilled); and it moves loads ahead until all registers are in use, which may be one pair too
    many. Return None if there is no such kernel.
    """
    changed = ptx
    for entry in entries:
        if not entry.spill_stores + entry.spill_loads:
            continue
        pattern = (
            rf"(\.entry\s+{re.escape(entry.name)}\s*\([^)]*\)\s*\.maxntid\s+(\d+)[^\n]*)\n"
            r"(\.minnctapersm (?!1\n)\d+\n)?"
        )
        match = re.search(pattern, changed)
        if match is None:
            continue
        threads = -(-int(match[2]) // _FULL_ROW) * _FULL_ROW
        asked = int(match[3].split()[1]) if match[3] else 0
        if asked * threads >= _WAITING and entry.spill_stores <= _FEW_SPILLED:
            continue
        limit = min(most, REGISTER_FILE // threads // 8 * 8)
        # Spilled values, and as many again for moves around them; allocated in units of 8.
        wanted = entry.registers + entry.spill_stores // 4 + 32
        wanted = min(-(-wanted // 8) * 8, limit)
        if wanted > entry.registers or limit == most < entry.registers:
            end = match.end(1)
            changed = f"{changed[:end]}\n.maxnreg {wanted}\n{changed[match.end() :]}"
    return None if changed == ptx else changed
