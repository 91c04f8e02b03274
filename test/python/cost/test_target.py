"""The table of chips: its rows, how a chip is found, and that its facts are not repeated anywhere
else."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from dataclasses import fields
from itertools import product
from pathlib import Path

import pytest
from mirage import _target
from mirage.compiler import CompileOptions, UnsupportedChipError, default_chip
from mirage.cost import (
    A100,
    H200,
    TARGETS,
    UnknownTargetError,
    target_for,
    target_of_device,
)
from mirage.cost.block_analysis import BlockAnalysis
from mirage.cost.kernel_features import MOST_REGISTERS
from mirage.cost.registers import RegisterEstimator
from mirage.cost.target import CHIPS, DEFAULT_CHIP, Target
from mirage.pipeline.options import OptimizeOptions

ROOT = Path(__file__).parents[3]
KIB, MIB = 1 << 10, 1 << 20
# CUDA C++ Programming Guide, "Compute Capabilities": shared memory per block and SM, threads and
# blocks per SM.
GUIDE = {
    "sm_80": ((8, 0), 163 * KIB, 164 * KIB, 2048, 32),
    "sm_86": ((8, 6), 99 * KIB, 100 * KIB, 1536, 16),
    "sm_89": ((8, 9), 99 * KIB, 100 * KIB, 1536, 24),
    "sm_90a": ((9, 0), 227 * KIB, 228 * KIB, 2048, 32),
}
# Data sheets: multiprocessors, L2, GB/s of DRAM, dense Tflop/s of f16 with f32 sums.
SHEETS = {
    "a100": (108, 40, 1555, 312),
    "a100-80gb": (108, 40, 2039, 312),
    "a30": (56, 24, 933, 165),
    "rtx3090": (82, 6, 936, 71),
    "a10": (72, 6, 600, 125),
    "a10g": (80, 6, 600, 70),
    "a40": (84, 6, 696, 150),
    "rtxa6000": (84, 6, 768, 155),
    "rtx4090": (128, 72, 1008, 165),
    "l4": (58, 48, 300, 121),
    "l40s": (142, 96, 864, 362),
    "h200": (132, 60, 4800, 989),
    "h100": (132, 50, 3352, 989),
    "h100-pcie": (114, 50, 2039, 756),
    "h100-nvl": (132, 50, 3938, 835),
    "gh200": (132, 60, 4022, 989),
}
CARDS = {t.name: t for t in TARGETS.values()}


def test_chips_are_those_of_the_programming_guide() -> None:
    assert set(CHIPS) == set(GUIDE)
    for card in CARDS.values():
        limits = (card.capability, card.shared_block, card.shared_sm, card.threads_sm)
        assert (*limits, card.blocks_sm) == GUIDE[card.chip], card.name
        assert (card.registers_sm, card.registers_thread, card.threads_block) == (65536, 255, 1024)


def test_abilities_grow_with_the_chips() -> None:
    by_chip = {chip: target_for(chip).abilities for chip in CHIPS}
    assert by_chip["sm_80"] == by_chip["sm_86"] == {"async_copy", "bf16_mma", "tf32_mma"}
    assert by_chip["sm_89"] == by_chip["sm_80"] | {"fp8_mma"}
    assert by_chip["sm_90a"] - by_chip["sm_89"] == {
        "mbarrier", "tensor_copy", "clusters", "warpgroup_mma", "warp_registers",
        "dependent_launch",
    }  # fmt: skip
    for card in CARDS.values():
        assert card.has_warpgroups == (card.mma_group > 0)


def test_cards_are_those_of_the_data_sheets() -> None:
    assert set(CARDS) == set(SHEETS)
    for name, (sms, l2, dram, tensor) in SHEETS.items():
        card = CARDS[name]
        assert (card.sms, card.l2_size) == (sms, l2 * MIB), name
        # the attainable share of a peak
        assert 0.88 <= card.dram_bytes / (dram * 1e3) <= 0.93, name
        flop = max(card.mma_half, card.mma_group) * card.sms / (tensor * 1e6)
        assert 0.6 <= flop <= 1.01, name
        assert 0 < card.mma_f32 < card.mma_half
        for field in fields(Target):
            value = getattr(card, field.name)
            if isinstance(value, float) and field.name != "mma_group":
                assert value > 0, (name, field.name)


def test_a_chip_stands_for_its_measured_card() -> None:
    assert target_for("sm_90a") is H200
    assert target_for("sm_80") is A100
    assert [t.name for t in CARDS.values() if t.measured] == ["h200"]


@pytest.mark.parametrize(
    ("capability", "device", "card"),
    [
        ((9, 0), "NVIDIA H200", "h200"),
        ((9, 0), "NVIDIA H100 80GB HBM3", "h100"),
        ((9, 0), "NVIDIA H100 PCIe", "h100-pcie"),
        ((9, 0), "NVIDIA H100 NVL", "h100-nvl"),
        ((9, 0), "NVIDIA GH200 480GB", "gh200"),
        ((8, 0), "NVIDIA A100-SXM4-40GB", "a100"),
        ((8, 0), "NVIDIA A100-SXM4-80GB", "a100-80gb"),
        ((8, 0), "NVIDIA A100 80GB PCIe", "a100-80gb"),
        ((8, 0), "NVIDIA A30", "a30"),
        ((8, 6), "NVIDIA GeForce RTX 3090 Ti", "rtx3090"),
        ((8, 6), "NVIDIA A10", "a10"),
        ((8, 6), "NVIDIA A10G", "a10g"),
        ((8, 6), "NVIDIA A40", "a40"),
        ((8, 6), "NVIDIA RTX A6000", "rtxa6000"),
        ((8, 9), "NVIDIA GeForce RTX 4090", "rtx4090"),
        ((8, 9), "NVIDIA L4", "l4"),
        ((8, 9), "NVIDIA L40S", "l40s"),
        ((8, 6), "NVIDIA GeForce RTX 3060", "rtx3090"),  # not listed: its chip's first card
    ],
)
def test_the_row_of_a_device(capability: tuple[int, int], device: str, card: str) -> None:
    assert target_of_device(capability, device).name == card


@pytest.mark.parametrize("capability", [(7, 5), (8, 8), (10, 0), (12, 0)])
def test_a_device_without_a_row_is_an_error(capability: tuple[int, int]) -> None:
    with pytest.raises(UnknownTargetError) as e:
        target_of_device(capability, "NVIDIA Something")
    assert "expected a GPU of compute capability 8.0 (sm_80), 8.6 (sm_86)" in str(e.value)
    assert f"got NVIDIA Something of {capability[0]}.{capability[1]}" in str(e.value)


def test_an_unknown_name_is_an_error_that_lists_the_known_ones() -> None:
    for make in (target_for, lambda chip: OptimizeOptions(chip=chip)):
        with pytest.raises(UnknownTargetError, match=r"\(sm_80, .*\(a100, .*got 'sm_42'"):
            make("sm_42")
    with pytest.raises(UnsupportedChipError, match="got 'sm_42'"):
        CompileOptions("sm_42")


def test_the_default_is_the_row_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    from mirage.compiler import chips

    def pretend(device: tuple[tuple[int, int], str] | None) -> None:
        default_chip.cache_clear()
        monkeypatch.setattr(chips, "first_device", lambda: device)

    try:
        pretend(None)
        assert CompileOptions().chip == OptimizeOptions().chip == DEFAULT_CHIP
        pretend(((8, 9), "NVIDIA L4"))
        assert CompileOptions().chip == OptimizeOptions().chip == "l4"
        assert CompileOptions().code_chip == "sm_89"
        pretend(((12, 0), "NVIDIA GeForce RTX 5090"))
        with pytest.raises(UnknownTargetError, match=r"of 12\.0"):
            OptimizeOptions()
        assert OptimizeOptions(chip="sm_80").chip == "sm_80"
    finally:
        default_chip.cache_clear()


def test_the_name_of_a_chip_stands_in_the_table_only() -> None:
    """Defaults and comparisons would be a second table."""
    quoted = re.compile(r"""["']sm_\d+a?["']""")
    found: list[str] = []
    for folder in ("python/mirage", "include", "lib"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix not in (".py", ".h", ".cpp", ".td") or path.parent.name == "Target":
                continue
            lines = path.read_text().splitlines()
            found += [f"{path.relative_to(ROOT)}: {x.strip()}" for x in lines if quoted.search(x)]
    # An error message that suggests what to write.
    assert [f for f in found if "whose code it runs" not in f] == []


NAMED_FOR_A_CARD = {
    "benchmarks/cost_fit.py",  # the starting point of fits: numbers counted by hand for this chip
    "benchmarks/run.py",  # the files of results, named for the card that was measured
}


def test_scripts_ask_the_table_for_their_chip() -> None:
    """They do not name chips or cards, except for results about one of them."""
    found: set[str] = set()
    for folder in ("benchmarks", "examples", "tools"):
        for path in (ROOT / folder).rglob("*.py"):
            nodes = ast.walk(ast.parse(path.read_text()))
            if any(isinstance(n, ast.Constant) and n.value in TARGETS for n in nodes):
                found.add(str(path.relative_to(ROOT)))
    assert found == NAMED_FOR_A_CARD


def test_reading_the_table_loads_no_compiler() -> None:
    code = (
        "import sys, mirage.cost; "
        "sys.exit(any('mlir' in m.lower() for m in sys.modules) or 'mirage.ir' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---- facts shared by the cost model and the code generator


def test_registers_of_a_thread() -> None:
    """The estimate's limit is the code generator's, except for the granularity of registers."""
    for warps in range(1, 33):
        ours = min(MOST_REGISTERS, 65536 // (128 * -(-warps // 4)))
        assert (
            min(MOST_REGISTERS, ours // 8 * 8) == _target.most_registers("sm_90a", warps) // 8 * 8
        )
    assert RegisterEstimator.__mro__[1] is BlockAnalysis


def test_products_that_the_search_gives_to_warpgroups_can_be_shared() -> None:
    for m, n, warps in product((64, 128, 192, 256), range(8, 257, 8), (4, 8, 16)):
        groups = warps // 4
        ok = (m % (64 * groups) == 0 and n % 8 == 0) or (m % 64 == 0 and n % (64 * groups) == 0)
        power = groups & (groups - 1) == 0 and all(x & (x - 1) == 0 for x in (m // 64, n // 8))
        if ok and power:
            assert _target.warpgroup_grids(m, n, warps), (m, n, warps)


def test_staged_rows() -> None:
    for rows, row in product((1, 2, 64), (8, 16, 24, 32, 64, 96, 128, 200, 256)):
        swizzle = _target.shared_swizzle(rows, row)
        assert swizzle == next((s for s in (128, 64, 32) if rows > 1 and row % s == 0), 0)
        if rows > 1 and row % 16 == 0 and not swizzle:  # eight rows are in different banks
            assert len({r * row // 16 % 8 for r in range(8)}) == 8


@pytest.mark.parametrize(
    ("name", "card"),
    [
        ("H100", "h100"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("h100_nvl", "h100-nvl"),
        ("NVIDIA H200", "h200"),
        ("A100 80GB", "a100-80gb"),
        ("NVIDIA A100-SXM4-80GB", "a100-80gb"),
        ("RTX 4090", "rtx4090"),
        ("NVIDIA GeForce RTX 3090", "rtx3090"),
        ("SM_90A", "h200"),
    ],
)
def test_names_that_cards_are_sold_under(name: str, card: str) -> None:
    assert target_for(name).name == card


@pytest.mark.parametrize(("name", "hint"), [("h101", "h100"), ("rtx4080", "rtx4090")])
def test_names_that_are_near(name: str, hint: str) -> None:
    with pytest.raises(UnknownTargetError, match=rf"got '{name}'; did you mean {hint}\?"):
        target_for(name)


@pytest.mark.parametrize("name", ["", "foo", "NVIDIA", "B200"])
def test_names_of_no_card(name: str) -> None:
    with pytest.raises(UnknownTargetError):
        target_for(name)
