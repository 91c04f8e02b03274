"""The assembler's remarks, and cubins in addition to PTX."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from mirage.compiler import compile as compilation
from mirage.compiler import ptxas
from mirage.compiler.errors import PtxasError
from mirage.compiler.ptxas import EntryUsage, ask_for_registers, assemble, find_ptxas, parse_output

OUTPUT = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'one' for 'sm_90a'
ptxas info    : Function properties for one
    16 bytes stack frame, 24 bytes spill stores, 32 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 1024 bytes smem
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async is serialized due to x
ptxas info    : Compiling entry function 'two' for 'sm_90a'
ptxas info    : Function properties for two
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 0 barriers
"""


def test_output() -> None:
    entries, warnings = parse_output(OUTPUT)
    one, two = entries
    assert (one.name, one.registers, one.shared_bytes) == ("one", 255, 1024)
    assert (one.spill_stores, one.spill_loads, one.stack_bytes) == (24, 32, 16)
    assert (two.name, two.registers, two.spill_stores) == ("two", 40, 0)
    report = ptxas.AssemblerReport("13.0", b"", entries, warnings)
    assert report.spills == (one,)
    assert len(report.serialized) == 1


def test_functions_that_remarks_name() -> None:
    remarks = (
        "ptxas info    : (C7512) Potential Performance Loss: wgmma.mma_async instructions are "
        "serialized due to insufficient register resources for the function 'main_1'",
        "ptxas fatal   : (C7602) Insufficient registers (96) to compile instruction at line 377 in "
        "function main_0. Try to compile with register target of 154 or higher.",
        "ptxas info    : (C7512) once more for the function 'main_1'",
        "ptxas fatal   : Ptx assembly aborted due to errors",
    )
    assert ptxas.functions_in(remarks) == ("main_1", "main_0")


PTX = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry one(
	.param .u64 one_param_0
)
.maxntid {threads}, 1, 1
{{
	ret;
}}
.visible .entry two()
.maxntid 128, 1, 1
{{
	ret;
}}
"""


def test_spills_for_occupancy_ask_for_registers() -> None:
    """ptxas may spill a little to have one more block on a multiprocessor."""
    spilling, fine = EntryUsage("one", 96, 0, 4, 4, 8), EntryUsage("two", 96, 0, 0, 0, 0)
    ptx = PTX.format(threads=128)
    changed = ask_for_registers(ptx, (spilling, fine)) or ""
    assert changed == ptx.replace(".maxntid 128, 1, 1", ".maxntid 128, 1, 1\n.maxnreg 136", 1)
    assert ask_for_registers(ptx, (fine,)) is None
    # Several blocks per multiprocessor are only a request; a single block is none.
    for blocks, left in ((3, ""), (1, "\n.minnctapersm 1")):
        given = ptx.replace(".maxntid 128, 1, 1", f".maxntid 128, 1, 1\n.minnctapersm {blocks}", 1)
        want = ptx.replace(".maxntid 128, 1, 1", f".maxntid 128, 1, 1\n.maxnreg 136{left}", 1)
        assert ask_for_registers(given, (spilling,)) == want
    # The limits: 512 threads share 65536 registers, and no thread has more than 255.
    full = EntryUsage("one", 128, 0, 4, 4, 8)
    assert ask_for_registers(PTX.format(threads=512), (full,)) is None
    assert ask_for_registers(ptx, (EntryUsage("one", 255, 0, 4, 4, 8),)) is None
    # 9 warps: three of them share one quarter of the registers.
    full = EntryUsage("one", 168, 0, 4, 4, 8)
    assert ask_for_registers(PTX.format(threads=288), (full,)) is None
    if find_ptxas() is not None:
        assert assemble(changed, "sm_80") is not None


def test_kernels_that_fill_all_registers_ask_for_fewer() -> None:
    """ptxas hoists loads until no register is left, and then spills a pair of them."""
    ptx = PTX.format(threads=128)
    changed = ask_for_registers(ptx, (EntryUsage("one", 255, 0, 8, 8, 8),), ptxas.WHOLE_UNITS)
    assert changed == ptx.replace(".maxntid 128, 1, 1", ".maxntid 128, 1, 1\n.maxnreg 248", 1)
    full = EntryUsage("one", 128, 0, 4, 4, 8)
    assert ask_for_registers(PTX.format(threads=512), (full,), ptxas.WHOLE_UNITS) is None


@pytest.mark.parametrize(
    ("spilled", "kept"),
    [((600, 16, 0), 248), ((600, 16, 16), 255), ((600, 400, 400), 0), ((600, 0, 0), 255)],
)
def test_the_request_that_spills_least_is_kept(
    spilled: tuple[int, int, int], kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request counts only if half of the spilled bytes, or more, are gone."""

    def usage(bytes_: int) -> ptxas.AssemblerReport:
        return ptxas.AssemblerReport("", b"", (EntryUsage("one", 168, 0, bytes_, 0, 8),), ())

    def assembled(ptx: str, chip: str) -> ptxas.AssemblerReport:
        return usage(spilled[1] if ".maxnreg 255" in ptx else spilled[2])

    monkeypatch.setattr(compilation, "assemble", assembled)
    given = PTX.format(threads=128)
    ptx, report = compilation.without_spills(given, usage(spilled[0]), "sm_90a")
    assert (f".maxnreg {kept}" in ptx) == bool(kept)
    assert report.spilled == min(spilled) if kept else ptx == given


@pytest.mark.skipif(find_ptxas() is None, reason="ptxas is not installed")
def test_assemble() -> None:
    source = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry f() { ret; }\n"
    report = assemble(source, "sm_80")
    assert report is not None
    assert report.cubin.startswith(b"\x7fELF")
    assert [e.name for e in report.entries] == ["f"]
    with pytest.raises(PtxasError, match="rejects the generated code"):
        assemble(source.replace("ret;", "rat;"), "sm_80")
    assert assemble(source.replace("7.0", "99.9"), "sm_80") is None


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Install an assembler in place of ptxas that writes given contents to ``$out``."""
    sections = (0, 64, 0, 64, 0, 0, 64, 1, 0)  # one, listed at byte 64, and no segments
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF", 2, 190, 1, 0, *sections)
    (tmp_path / "code").write_bytes(header + bytes(64))

    def write(how: str) -> None:
        script = tmp_path / "ptxas"
        asked = '[ "$1" != --version ] || exit 0'
        out = f"code={tmp_path}/code\nfor out; do :; done"
        script.write_text(f"#!/bin/sh\n{asked}\n{out}\n{how}\n")
        script.chmod(0o755)
        monkeypatch.setenv("MIRAGE_PTXAS", str(script))

    return write


def test_an_output_for_which_the_disk_had_no_room(written: Callable[[str], None]) -> None:
    """ptxas itself does not notice: it succeeds, and the file ends early."""
    written('cat "$code" > "$out"')
    report = assemble("", "sm_80")
    assert report is not None
    assert len(report.cubin) == 128
    for size in (0, 30, 64, 127):
        written(f'head -c {size} "$code" > "$out"')
        with pytest.raises(OSError, match="its output is cut off"):
            assemble("", "sm_80")
    written("echo \"ptxas fatal   : Output file '$out' could not be opened\" >&2; exit 255")
    with pytest.raises(OSError, match="its output could not be opened"):
        assemble("", "sm_80")


def test_without_ptxas(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("MIRAGE_PTXAS", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert assemble("", "sm_80") is None
