"""Breaks PTX in one place at a time, to show that the checks and comparisons would notice.

    for mutant in mutants(ptx, "barrier"):
        with pytest.raises(EmulatorError):
            check_artifact(with_ptx(artifact, mutant.ptx), reference)

A mutant may be equivalent (a barrier that another one makes redundant, an xor that is no swizzle),
so tests ask that some of each kind are noticed, or all of a kernel whose every line is needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["barrier", "wait", "fence", "mask", "swizzle"]

_REGISTER = r"%[\w$]+"
# What an instruction of each kind looks like, and what takes its place.
_RULES: dict[Kind, tuple[tuple[str, str], ...]] = {
    "barrier": (
        (r"(?:bar|barrier)(?:\.cta)?\.sync(?:\.aligned)?(?:\.all)?\s[^;]*;", ""),
        (r"barrier\.cluster\.arrive[.\w]*;\s*barrier\.cluster\.wait[.\w]*;", ""),
    ),
    "wait": (
        (r"cp\.async(?:\.bulk)?\.wait_(?:group|all)[^;]*;", ""),
        (r"wgmma\.wait_group[^;]*;", ""),
        (rf"mbarrier\.try_wait[.:\w]*\s+({_REGISTER})\s*,[^;]*;", r"setp.eq.u32 \1, 0, 0;"),
    ),
    "fence": (
        (r"fence\.(?:proxy|mbarrier_init)[.:\w]*;", ""),
        (r"wgmma\.fence[.\w]*;", ""),
    ),
    "mask": (
        (rf"@!?{_REGISTER}\s+((?:ld|st|red|cp\.async\.c[ag])[.:\w]*\s)", r"\1"),
        (rf"selp\.[bu]32\s+({_REGISTER}),\s*(4|8|16),\s*0,[^;]*;", r"mov.b32 \1, \2;"),
        (rf"(cp\.async\.c[ag][.:\w]*\s[^;]*,\s*(?:4|8|16)),\s*{_REGISTER};", r"\1;"),
    ),
    "swizzle": (
        (rf"xor\.b(16|32|64)\s+({_REGISTER}),\s*({_REGISTER}),\s*{_REGISTER};", r"mov.b\1 \2, \3;"),
    ),
}


@dataclass(frozen=True)
class Mutant:
    """PTX with one instruction changed: 1-based line, the text that was there."""

    ptx: str
    line: int
    original: str


def mutants(ptx: str, kind: Kind) -> Iterator[Mutant]:
    """Every text that differs from `ptx` in one instruction of the kind."""
    for pattern, replacement in _RULES[kind]:
        for match in re.finditer(pattern, ptx):
            changed = ptx[: match.start()] + match.expand(replacement) + ptx[match.end() :]
            line = ptx.count("\n", 0, match.start()) + 1
            yield Mutant(changed, line, match.group())
