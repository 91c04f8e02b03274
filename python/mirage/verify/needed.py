"""Explanations of an unknown verdict: which limit prevents a proof, of what, and what to try.

Each attempt says why it does not apply; this module translates that into things that the user can
change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mirage.verify.verdict import Evidence, Kind, Verdict

_SPLIT = (
    "write the program as several kernels that store what lies between, or compare its parts "
    "one by one"
)
_SMALLER = "compare the same programs at smaller sizes"
_WANTS: tuple[tuple[str, str], ...] = (
    (r"more than (\d+) products of terms", f"a proof within {{0}} products of terms: {_SPLIT}"),
    (
        r"products of sums of (\d+) and (\d+) terms",
        f"a proof without products of sums of {{0}} and {{1}} terms: {_SPLIT}",
    ),
    (
        r"([\d.e+]+) elements to compute, limit ([\d.e+]+)",
        f"tests at the real sizes of {{0}} elements, where {{1}} are allowed: {_SMALLER}, or raise "
        "VerifyOptions.work",
    ),
    (
        r"the small programs have (\d+) elements, limit (\d+)",
        f"a small model of at most {{1}} elements, this one has {{0}}: {_SPLIT}",
    ),
    (
        r"(\d+) indices of one axis interact, limit (\d+)",
        f"a small model in which at most {{1}} indices of one axis meet, here {{0}} do: {_SPLIT}",
    ),
    (
        r"(sizes|digits of radix) (\d+) and (\d+|radix \d+) meet",
        "tiles whose sizes divide each other: {1} and {2} cut one dimension; choose tiles with "
        "common factors",
    ),
    (
        r"a slice of a dimension of (\d+) starts at a multiple of (\d+)",
        "a slice that starts at a multiple of the tiles of its dimension of {0}: it starts at one "
        "of {1} only",
    ),
    (
        r"(\d+) tiles, limit (\d+)",
        "at most {1} tiles inside of kernels to cut at, there are {0}: write fewer ops in a kernel",
    ),
    (
        r"no result within ([\d.]+) s of processor time: (.*)",
        "more time than {0} s for {1}: a larger --seconds, VerifyOptions.seconds",
    ),
    (r"no result within ([\d.]+ s)(?! of processor time:)", "more time than {0} for it"),
    (r"the time was up before (.*)", "a larger --budget: the time was up before {0}"),
    (
        r"the normal forms differ",
        "an identity that the normal forms do not know: rewrite one program in the other's terms "
        "where functions other than exp, sums, products, quotients and maxima meet",
    ),
    (r"an output is undefined", "outputs that are defined: a divisor is 0 whatever the inputs are"),
    (
        r"expected the calls (.*), got (.*)",
        "the same calls of the framework in the same order: {0}, not {1}",
    ),
)


def needed(verdict: Verdict) -> tuple[str, ...]:
    """Return sentences that explain an unknown verdict, starting with the attempt that came nearest
    to a proof; none for other verdicts."""
    if verdict.kind is not Kind.UNKNOWN:
        return ()
    found: dict[str, None] = {}
    for evidence in verdict.evidence:
        found.update(dict.fromkeys(_of(evidence)))
    if not found:
        found["a proof: no attempt applies; compare the programs' parts one by one"] = None
    return tuple(found)


def _of(evidence: Evidence) -> Iterator[str]:
    if evidence.holds is True:
        return
    pieces = evidence.figures.get("pieces", ())
    for piece in pieces:
        if piece["verdict"] == "unknown":
            what = f"for what computes {', '.join(piece['computes'])}"
            for inner in piece["rests_on"]:
                if not inner["holds"]:
                    yield from (f"{what}: {want}" for want in _wants(inner["text"]))
    if pieces:
        return
    if evidence.name.startswith("finite field") and evidence.holds is False:
        yield (
            "an identity that holds in finite fields: float64 shows no difference, so the programs "
            "may be equal by what only real numbers have (signs, square roots, logarithms)"
        )
    wants = list(_wants(evidence.text))
    yield from wants
    if not wants and evidence.holds is None and evidence.name not in ("bound",):
        yield f"{evidence.name}: {evidence.text}"


def _wants(text: str) -> Iterator[str]:
    for pattern, sentence in _WANTS:
        match = re.search(pattern, text)
        if match:
            yield sentence.format(*match.groups())
