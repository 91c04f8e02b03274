"""Breaks PTX in one place at a time, to show that the checks and comparisons would notice.

    for mutant in mutants(ptx, "barrier"):
        with pytest.raises(EmulatorError):
            check_artifact(with_ptx(artifact, mutant.ptx), reference)

A mutant may be equivalent (a barrier that another one makes redundant, an xor that is not a
swizzle, a predicate that is true for every thread). Therefore tests require that a mutant is
noticed or changes nothing: no check fires, and the outputs are the same bit for bit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal["barrier", "wait", "fence", "parity", "count", "mask", "bound", "swizzle"]
"""The kind of instruction that is broken: a barrier; the wait for an asynchronous copy, product or
mbarrier; a fence between proxies; the phase that a wait for an mbarrier waits for (parity); the
number of arrivals or bytes that an mbarrier waits for, or of threads that a barrier waits for
(count); the value or action of a lane out of bounds (mask); the predicate that says which lanes are
in bounds or take part (bound); the exclusive or of an address (swizzle)."""

_REGISTER = r"%[\w$]+"
# The pattern of an instruction of each kind, and its replacement.
_RULES: dict[Kind, tuple[tuple[str, str], ...]] = {
    "barrier": (
        (r"(?:bar|barrier)(?:\.cta)?\.sync(?:\.aligned)?(?:\.all)?\s[^;]*;", ""),
        (r"barrier\.cluster\.arrive[.\w]*;\s*barrier\.cluster\.wait[.\w]*;", ""),
    ),
    "wait": (
        (r"cp\.async(?:\.bulk)?\.wait_(?:group|all)[^;]*;", ""),
        (r"wgmma\.wait_group[^;]*;", ""),
        (r"mbarrier\.try_wait[.:\w]*\s+([%\w$]+)\s*,[^;]*;", r"setp.eq.u32 \1, 0, 0;"),
    ),
    "fence": (
        (r"fence\.(?:proxy|mbarrier_init)[.:\w]*;", ""),
        (r"wgmma\.fence[.\w]*;", ""),
    ),
    "mask": (
        (rf"@!?{_REGISTER}\s+((?:ld|st|red|cp\.async\.c[ag])[.:\w]*\s)", r"\1"),
        (rf"selp\.[bu]32\s+({_REGISTER}),\s*(4|8|16),\s*0,[^;]*;", r"mov.b32 \1, \2;"),
        (rf"selp\.[bu]32\s+({_REGISTER}),\s*0,\s*(4|8|16),[^;]*;", r"mov.b32 \1, \2;"),
        (rf"(cp\.async\.c[ag][.:\w]*\s[^;]*,\s*(?:4|8|16)),\s*{_REGISTER};", r"\1;"),
        # A value, or its replacement in a lane out of bounds.
        (
            rf"selp\.[bf](16|32)\s+({_REGISTER}),\s*({_REGISTER}),\s*0[xfF][0-9A-Fa-f]+,[^;]*;",
            r"mov.b\1 \2, \3;",
        ),
    ),
    "swizzle": (
        (rf"xor\.b(16|32|64)\s+({_REGISTER}),\s*({_REGISTER}),\s*[^;]+;", r"mov.b\1 \2, \3;"),
    ),
}
_COMPARE = re.compile(rf"setp\.[\w.]+\s+({_REGISTER}),[^;]*;")
_BRANCH = re.compile(rf"@!?({_REGISTER})\s+bra(?:\.uni)?\s+([$\w]+)\s*;")


@dataclass(frozen=True)
class Mutant:
    """PTX with one instruction changed: the 1-based line, and the original text."""

    ptx: str
    line: int
    original: str


def mutants(ptx: str, kind: Kind) -> Iterator[Mutant]:
    """Yield every text that differs from `ptx` in one instruction of the kind."""
    if kind in _OTHERS:
        yield from _OTHERS[kind](ptx)
        return
    for pattern, replacement in _RULES[kind]:
        for match in re.finditer(pattern, ptx):
            yield _changed(ptx, match.start(), match.end(), match.expand(replacement))


def _changed(ptx: str, start: int, end: int, text: str) -> Mutant:
    line = ptx.count("\n", 0, start) + 1
    return Mutant(ptx[:start] + text + ptx[end:], line, ptx[start:end])


def _bounds(ptx: str) -> Iterator[Mutant]:
    """Yield texts in which one comparison is always true or always false, except for those of
    loops."""
    kernels = [m.start() for m in re.finditer(r"\.entry\s", ptx)]
    for start, end in zip(kernels, [*kernels[1:], len(ptx)], strict=True):
        body = ptx[start:end]
        loops = {
            branch.group(1)
            for branch in _BRANCH.finditer(body)
            if re.search(
                rf"^\s*{re.escape(branch.group(2))}:", body[: branch.start()], re.MULTILINE
            )
        }
        for match in _COMPARE.finditer(body):
            if match.group(1) in loops:
                continue
            for test in ("eq", "ne"):
                constant = f"setp.{test}.u32 {match.group(1)}, 0, 0;"
                yield _changed(ptx, start + match.start(), start + match.end(), constant)


def with_register(ptx: str, name: str, start: str = "") -> str:
    """Return ``ptx`` with an additional 32-bit register in its first kernel, and with instructions
    at its start."""
    body = ptx.index("{", ptx.index(".entry")) + 2
    return f"{ptx[:body]}\t.reg .b32 {name};\n{start}{ptx[body:]}"


def wrong_parities(ptx: str) -> Iterator[str]:
    """Yield ``ptx`` with each of its waits for an mbarrier waiting for the other phase."""
    return (mutant.ptx for mutant in _parities(ptx))


def _parities(ptx: str) -> Iterator[Mutant]:
    pattern = r"mbarrier\.try_wait\.parity\S+ (\S+), \[([^]]+)\], (\S+);"
    for wait in re.finditer(pattern, ptx):
        flipped = f"xor.b32 %r_flip, {wait[3]}, 1;\n" + wait[0].replace(wait[3] + ";", "%r_flip;")
        mutant = _changed(ptx, wait.start(), wait.end(), flipped)
        yield replace(mutant, ptx=with_register(mutant.ptx, "%r_flip"))


_COUNTED = (
    (rf"mbarrier\.init[.:\w]*\s+\[[^]]+\],\s*({_REGISTER}|\d+);", (-1, 1)),
    (rf"mbarrier\.arrive\.expect_tx[.:\w]*\s+_,\s*\[[^]]+\],\s*({_REGISTER}|\d+);", (-16, 16)),
    (rf"bar(?:rier)?(?:\.cta)?\.sync[.\w]*\s+[^,;]+,\s*({_REGISTER}|\d+);", (-32, 32)),
)
"""Patterns of instructions that contain a number of arrivals, bytes or threads, with its position
and the changes of it."""


def _counts(ptx: str) -> Iterator[Mutant]:
    """Yield texts in which one known number is a little smaller or larger."""
    for pattern, steps in _COUNTED:
        for match in re.finditer(pattern, ptx):
            known = [match[1]]
            if not match[1].isdigit():
                known = re.findall(rf"mov\.[bu]32\s+{re.escape(match[1])}, (\d+);", ptx)
            for step in steps if len(known) == 1 else ():
                text = match[0][: match.start(1) - match.start()] + f"{int(known[0]) + step};"
                if int(known[0]) + step > 0:
                    yield _changed(ptx, match.start(), match.end(), text)


_OTHERS: dict[Kind, Callable[[str], Iterator[Mutant]]] = {
    "bound": _bounds,
    "parity": _parities,
    "count": _counts,
}
