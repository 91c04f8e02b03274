"""Explanations of an unknown verdict: which limit prevents a proof, of what, and what to try.

Each attempt states why it does not apply; here this is expressed in terms of what the user can
change. Reasons that nobody can act upon (that float64 shows no difference) are left out; they are
in the evidence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from mirage.semantics.decompose import decompose
from mirage.semantics.scalar import BinaryFn, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, Value, all_ops
from mirage.verify.verdict import Evidence, Kind, Verdict

_SPLIT = (
    "write the program as several kernels that store intermediate tensors, or compare its parts "
    "one by one"
)
_SMALLER = "compare the same programs at smaller sizes"
_SHAPED = "write the reshapes of both programs at the same places"
_WANTS: tuple[tuple[str, str], ...] = (
    # work
    (r"more than (\d+) products of terms", f"a proof within {{0}} products of terms: {_SPLIT}"),
    (
        r"products? of sums of (\d+) and (\d+) (terms|exponentials)",
        f"a proof without products of sums of {{0}} and {{1}} {{2}}: {_SPLIT}",
    ),
    (
        r"([\d.e+]+) elements to compute, limit ([\d.e+]+)",
        f"tests at the real sizes of {{0}} elements, where {{1}} are allowed: {_SMALLER}, or raise "
        "VerifyOptions.work (from Python)",
    ),
    (r"not tried: too much work", f"tests with the tensors that are held: {_SMALLER}"),
    (
        r"(\d+) elements of work, limit (\d+)",
        f"a proof with positions and held tensors as they are, of at most {{1}} elements of work, "
        f"where these programs have {{0}}: {_SMALLER}",
    ),
    (r"the pieces are more than (\d+) elements", f"pieces of at most {{0}} elements: {_SMALLER}"),
    (
        r"(\d+) elements(?: of inputs| besides known numbers)?, limit (\d+)",
        f"at most {{1}} elements to look at case by case, there are {{0}}: {_SMALLER}",
    ),
    (r"too many cases", "fewer comparisons that decide about one element: compare parts of it"),
    (
        r"no result within ([\d.]+) s of processor time: (.*)",
        "more than {0} s of processor time for {1}: a larger --seconds, VerifyOptions.seconds",
    ),
    (r"no (?:result|proof) within ([\d.]+ s)", f"more time than {{0}} for a proof: {_SPLIT}"),
    (r"the time was up before (.*)", "more time: it was up before {0}"),
    # small models
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
        r"running results depend on all indices of a dimension",
        "a running sum or maximum that is written as a product with a triangle, in both programs",
    ),
    (
        r"a slice of a dimension of (\d+) starts at a multiple of (\d+)",
        "a slice that starts at a multiple of the tiles of its dimension of {0}: it starts at one "
        "of {1} only",
    ),
    (
        r"sums depend on the order of (\d+) groups",
        "a loop with fewer steps: its sums depend on the order of {0} groups of them",
    ),
    (
        r"dimensions of (.*) do not merge|cells cover|a reshape joins cells|"
        r"merged dimensions cannot be told apart",
        f"dimensions that both programs keep apart, or join, at the same places: {_SHAPED}",
    ),
    (r"no useful bound", f"a proof, as there are too many terms for a bound by chance: {_SPLIT}"),
    # kernels and pieces
    (
        r"(\d+) tiles, limit (\d+)",
        "at most {1} tiles inside of kernels to cut at, there are {0}: write fewer ops in a kernel",
    ),
    (
        r"the kernels cannot be cut there",
        "kernels that store what they have in common with the reference: store it in a tensor",
    ),
    (
        r"the outputs do not follow from (.*)",
        "more values that both programs compute on the way than {0}, from which the outputs do not "
        "follow: let one store what the other computes",
    ),
    (
        r"that they contribute nothing is not shown",
        "a loop that leaves out only steps whose bounds show that they contribute nothing: compare "
        "with the loop that takes all steps",
    ),
    # known facts
    (
        r"the normal forms differ",
        "an identity that the normal forms do not know: rewrite one program in the other's terms "
        "where functions other than exp, sums, products, quotients and maxima meet",
    ),
    (
        r"an output is undefined|divisions by zero in every draw",
        "outputs that are defined: a divisor is 0 for all inputs",
    ),
    (
        r"^0 draws, .* redrawn",
        "a proof, as finite fields say nothing: a divisor or a logarithm has no value in any draw",
    ),
    (r"^0 random inputs", "inputs at which the reference gives numbers: float64 found none"),
    (
        r"equal wherever each index names an element|only where an index names no element",
        "indices that are in range: --assume indices-in-range, VerifyOptions.assume",
    ),
    (
        r"equal wherever each mask leaves something",
        "rows of which each mask leaves something: --assume rows-left, VerifyOptions.assume",
    ),
    (
        r"the difference is no larger than what rounding",
        "tables that hold their numbers exactly: what one program holds is rounded to f32; hold "
        "them in f64, or compute them in both programs",
    ),
    (
        r"with any numbers as the results of calls",
        "calls with equal operands, and equal uses of their results",
    ),
    (
        r"expected the calls (.*), got (.*)",
        "the same calls of the framework in the same order: {0}, not {1}",
    ),
    (
        r"compared with any numbers in place of conjunctions of bits",
        "the same conjunctions of bits in both programs, or masks that are constants",
    ),
    (
        r"no rule for (\w+)|a meaning at this level, got (\w+)",
        "programs without {0}, which proofs do not support: compare the parts before and after it",
    ),
)
_SILENT = (
    # of the finite field; functions that it does not know are described separately
    r"^[1-9]\d* draws, \d+ redrawn",
    r"^[1-9]\d* random inputs",
    r"no difference on \d+ random inputs",
    r"the programs differ on inputs constant within cells",
    r"nothing bounds the chance",  # besides the obstacles to a bound
    r"logarithms of exponentials are left to the proof",
    r"no tile inside of a kernel can be stored",
    r"nothing is compared",
    r"other elements are moved",
    r"\d+ of \d+ pieces are not shown",  # each states why
)
"""Reasons that are left out because other reasons say more, or because nobody can change them."""

_UNKNOWN_TO_FIELDS: Mapping[object, str] = {
    UnaryFn.ABS: "magnitudes",
    UnaryFn.SQRT: "roots",
    UnaryFn.RSQRT: "roots",
    UnaryFn.LOG: "logarithms",
    UnaryFn.LOG1P: "logarithms",
    UnaryFn.SIGMOID: "sigmoids",
    UnaryFn.SILU: "sigmoids",
    UnaryFn.TANH: "hyperbolic tangents",
    UnaryFn.GELU_TANH: "hyperbolic tangents",
    UnaryFn.GELU: "error functions",
    UnaryFn.RELU: "maxima",
    UnaryFn.FLOOR: "numbers that are rounded down",
    UnaryFn.SIN: "sines",
    UnaryFn.COS: "cosines",
    UnaryFn.ROUND_E4M3: "roundings to 8 bits",
    UnaryFn.ROUND_E5M2: "roundings to 8 bits",
    UnaryFn.BIAS: "masks",
    UnaryFn.NOT: "comparisons",
    BinaryFn.KEEP: "masks",
    BinaryFn.COPYSIGN: "signs",
    BinaryFn.MAX: "maxima",
    BinaryFn.MIN: "maxima",
    BinaryFn.POW: "powers",
    BinaryFn.LT: "comparisons",
    BinaryFn.LE: "comparisons",
    BinaryFn.EQ: "comparisons",
    BinaryFn.NE: "comparisons",
    BinaryFn.FLOOR_DIV: "quotients of whole numbers",
    BinaryFn.REMAINDER: "quotients of whole numbers",
    ReduceFn.MAX: "maxima",
}
"""Functions of real numbers about which finite fields know no identity, in words."""


def needed(verdict: Verdict, programs: Sequence[KernelGraph] = ()) -> tuple[str, ...]:
    """Return sentences about an unknown verdict on ``programs``, beginning with the attempt that
    came nearest to a proof; none for other verdicts."""
    if verdict.kind is not Kind.UNKNOWN:
        return ()
    found: dict[str, None] = {}
    for evidence in verdict.evidence:
        if evidence.holds is False and evidence.name.startswith("finite field"):
            found[_of_reals(verdict, programs)] = None
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
                    yield from (f"{what}: {want}" for want in _wants(inner["name"], inner["text"]))
    if not pieces:
        yield from _wants(evidence.name, evidence.text)


def _wants(name: str, text: str) -> Iterator[str]:
    """Return the reason that an attempt gives, in the user's terms."""
    found = False
    for pattern, sentence in _WANTS:
        match = re.search(pattern, text)
        if match:
            found = True
            yield sentence.format(*[x for x in match.groups() if x] or [""])
    if not found and not is_known(text):
        yield f"another way than the {name}, which does not apply: {_SPLIT}"


def is_known(text: str) -> bool:
    """Return whether there is a sentence for the reason that an attempt gives, or a decision to
    have none."""
    return any(re.search(pattern, text) for pattern in (*_SILENT, *(p for p, _ in _WANTS)))


def _of_reals(verdict: Verdict, programs: Sequence[KernelGraph]) -> str:
    """Return the functions of real numbers by which programs that differ in a finite field may be
    equal."""
    graphs = [decompose(graph) for graph in programs]
    functions = {op.function for graph in graphs for op in all_ops(graph.ops)}
    names = sorted({name for fn, name in _UNKNOWN_TO_FIELDS.items() if fn in functions})
    if any(map(_has_nested_exponentials, graphs)):
        names.append("exponentials of what an exponential went into")
    held = any(e.name.startswith("float64 with") for e in verdict.evidence)
    if held:
        names.append("what positions, held tensors and rows that are looked up contain")
    if not names:
        return (
            "the same constants: over exact numbers the programs differ, by less than float64 shows"
        )
    what = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return (
        f"an identity of {what}, which finite fields do not know: write both programs alike where "
        "these are, or compare the parts before and after one by one"
    )


def _has_nested_exponentials(graph: KernelGraph) -> bool:
    made: set[Value] = set()
    for op in all_ops(graph.ops):
        inside = not made.isdisjoint(op.operands)
        if inside and op.function is UnaryFn.EXP:
            return True
        if inside or op.function is UnaryFn.EXP:
            made.update(op.results)
    return False
