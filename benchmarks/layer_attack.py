"""Single faults in the candidates of whole layers, which are verified kernel by kernel.

The verifier is given the search's statements about the values that a candidate's tensors hold,
sometimes with two tensors exchanged; since the candidate has a fault, one of these statements is
wrong. The pieces into which the candidate is cut are judged separately from the tests of the whole
program, which find most faults earlier: if all pieces are shown, the mutant must be right, and if
it is wrong, a piece with the fault must be among those that are not shown.
"""

from __future__ import annotations

import hashlib
import pickle
import random
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from faults.program_mutants import Mutant, mutants
from mirage.semantics.signature import signature
from mirage.semantics.ugraph import KernelGraph
from mirage.verify import Kind, Verdict, VerifyOptions, verify
from mirage.verify.evidence.proofs.exact import accounts_of, show
from mirage.verify.pieces.kernel_by_kernel import Account, Hint, Pairs, Piece, Shown
from mirage.verify.pieces.ledger import Ledger
from oracle.evaluator import TooMuchWork
from oracle.judge import Finding, Judge, place_of
from time_limit import Late, at_most

LAYERS = (
    "swiglu", "convnext_tail", "moe_dense", "moe_shared", "mamba_projections", "mixer",
    "torch_attention", "plain_encoder", "torch_encoder_pre", "torch_encoder_post", "modernbert",
    "t5_encoder", "bert", "xlm_roberta", "electra", "vit", "dinov2", "beit", "siglip",
    "clip_vision", "gptj", "llama", "gpt2", "dit", "deepseek_v3_mla",
)  # fmt: skip
"""At their small widths; those without a candidate that is shown to be right are left out."""
WRONG = (
    "different_accepted",
    "different_with_all_pieces_shown",
    "different_whose_fault_is_in_no_piece_that_fails",
    "useless_accepted",
    "equal_refuted",
)
"""Counts of the summary that must be zero."""
SEARCH_SECONDS = 30.0
PIECE_SECONDS = 2.0
LONGEST = 60.0  # of processor time, for a mutant
SPECIAL = 4  # situations of models, if a verdict differs from what a short test suggests


@dataclass(frozen=True)
class LayerSubject:
    """A reference and a candidate that is shown to be right kernel by kernel."""

    name: str
    reference: KernelGraph
    candidate: KernelGraph
    hint: Hint


@dataclass(frozen=True)
class LayerOutcome:
    """One mutant, and the verdict on it. ``shown``: all its pieces are shown, without tests of the
    whole. ``named``: if not, a piece with the fault is among those that are not shown.
    """

    subject: str
    kind: str
    description: str
    key: str  # equal for equal mutants of equal references with equal statements
    different: bool
    useless: bool  # the result is not a number where the reference has one
    verdict: str
    accepted: bool
    shown: bool
    named: bool
    seconds: float


def layer_subjects(
    name: str, folder: Path | None = None, seconds: float = SEARCH_SECONDS
) -> list[LayerSubject]:
    """Return the best candidate of a layer, and the best one with another number of kernels; they
    are kept in a ``folder`` if one is given."""
    file = None if folder is None else folder / f"{name}.pkl"
    if file is not None and file.exists():
        found = pickle.loads(file.read_bytes())
    else:
        found = list(_found(name, seconds))
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(pickle.dumps(found))
    print(f"{name}: {len(found)} candidates", file=sys.stderr)
    return found


def kept_layers(folder: Path) -> Iterator[LayerSubject]:
    """Return the layers that are already in a folder."""
    for file in sorted(folder.glob("*.pkl")):
        yield from pickle.loads(file.read_bytes())


def _found(name: str, seconds: float) -> Iterator[LayerSubject]:
    from layer_candidates import candidates_of  # attacks on kept candidates need no importer

    seen: dict[int, set[int]] = {}
    for found in candidates_of(name, seconds):
        kernels = seen.setdefault(found.part, set())
        if len(kernels) == 2 or found.kernels in kernels:
            continue
        label = f"{name}/{found.kernels} kernels"
        subject = LayerSubject(label, found.reference, found.candidate, found.hint)
        if all(a.holds for a in _Pieces(subject, 0).accounts(found.candidate, found.hint)):
            kernels.add(found.kernels)
            yield subject


class _Pieces:
    """Judges mutants of one candidate; verdicts on pieces are kept for the next mutant."""

    def __init__(self, subject: LayerSubject, seed: int) -> None:
        self.subject = subject
        self.rng = random.Random(f"{subject.name} {seed}")
        self.ledger = Ledger()
        self.oracle = Judge(subject.reference, seed)

    def accounts(self, candidate: KernelGraph, hint: Hint) -> tuple[Account, ...]:
        """Return the conclusions from the pieces alone."""
        return accounts_of(hint, candidate, self._prove)

    def _prove(self, piece: Piece) -> Shown:
        found = self.ledger.get(piece.key)
        if found is None:
            found = show(piece, self.rng.getrandbits(128), PIECE_SECONDS)
            self.ledger.add(piece, found)
        return found

    def _exchanged(self, stored: Pairs) -> Pairs:
        """Return the statements, every fourth time with two of the candidate's tensors
        exchanged."""
        if self.rng.random() > 0.25 or len(stored) < 2:
            return stored
        i, j = self.rng.sample(range(len(stored)), 2)
        changed = list(stored)
        if changed[i][1].type.size == changed[j][1].type.size:
            changed[i], changed[j] = (stored[i][0], stored[j][1]), (stored[j][0], stored[i][1])
        return tuple(changed)

    def _finding(self, graph: KernelGraph, verdict: Verdict) -> Finding | None:
        """Return what the oracle finds; it examines more if the verdict says something else."""
        found = self.oracle.quick(graph)
        if found is None and (verdict.accepted or verdict.kind is Kind.REFUTED):
            found = self.oracle.thorough(graph, SPECIAL, place_of(verdict))
        return found

    def _key(self, graph: KernelGraph, hint: Hint) -> str:
        text = signature(self.subject.reference) + signature(graph)
        places = {v: i for i, v in enumerate(v for op in graph.ops for v in op.results)}
        said = [places.get(c, -1) for _, c in hint.stored]
        return hashlib.sha256(f"{text} {said}".encode()).hexdigest()[:16]

    def judge(self, mutant: Mutant) -> LayerOutcome:
        """Return the verdicts on one mutant, and whether it really differs."""
        start = time.perf_counter()
        stored = tuple((p, mutant.values.get(c, c)) for p, c in self.subject.hint.stored)
        hint = replace(self.subject.hint, stored=self._exchanged(stored))
        accounts = self.accounts(mutant.graph, hint)
        options = VerifyOptions(seed=self.rng.getrandbits(128), numerics=False, work=5e5)
        verdict = verify(self.subject.reference, mutant.graph, options, hint, self.ledger)
        finding = self._finding(mutant.graph, verdict)
        different = finding is not None and finding.kind == "different"
        useless = finding is not None and finding.kind == "undefined"
        accepted = verdict.accepted
        # equal, like a sum in place of a maximum: the test of rounding errors decides
        if useless and accepted:
            full = replace(options, numerics=True)
            accepted = verify(
                self.subject.reference, mutant.graph, full, hint, self.ledger
            ).accepted
        wrong = {mutant.graph.ops[i] for i in mutant.wrong}
        failed = [op for a in accounts for piece, _ in a.failed for op in piece.ops]
        return LayerOutcome(
            self.subject.name,
            mutant.kind,
            mutant.description,
            self._key(mutant.graph, hint),
            different,
            useless,
            verdict.kind.value,
            accepted,
            all(a.holds for a in accounts),
            not wrong.isdisjoint(failed) or not wrong,
            time.perf_counter() - start,
        )


def attack_layer(
    subject: LayerSubject, count: int, seed: int, deadline: float = float("inf")
) -> Iterator[LayerOutcome]:
    """Yield verdicts on mutants of one candidate; none after ``deadline`` (of ``time.time``)."""
    pieces = _Pieces(subject, seed)
    for mutant in mutants(subject.candidate, pieces.rng, count):
        if time.time() > deadline:
            return
        with suppress(TooMuchWork, Late):  # the oracle cannot judge it
            with at_most(LONGEST, processor=True):
                found = pieces.judge(mutant)
            yield found


def layer_summary(outcomes: Sequence[LayerOutcome]) -> dict[str, object]:
    """Return the counts that decide, and all cases that should not occur. Equal mutants count once,
    by their worst outcome."""
    by_harm = sorted(outcomes, key=lambda o: (o.different or o.useless, o.accepted, o.shown))
    outcomes = list({o.key: o for o in by_harm}.values())
    different = [o for o in outcomes if o.different]
    fooled = [o for o in different if o.shown]
    unnamed = [o for o in different if not o.shown and not o.named]
    useless = [o for o in outcomes if o.useless]
    equal = [o for o in outcomes if not o.different and not o.useless]

    def told(some: Sequence[LayerOutcome]) -> list[list[str]]:
        return [[o.subject, o.kind, o.description, o.verdict] for o in some]

    return {
        "mutants": len(outcomes),
        "subjects": len({o.subject for o in outcomes}),
        "layers": len({o.subject.partition("/")[0] for o in outcomes}),
        "different": len(different),
        "different_accepted": sum(o.accepted for o in different),
        "different_refuted": sum(o.verdict == Kind.REFUTED.value for o in different),
        "different_with_all_pieces_shown": len(fooled),
        "different_whose_fault_is_in_no_piece_that_fails": len(unnamed),
        "useless": len(useless),
        "useless_accepted": sum(o.accepted for o in useless),
        "equal": len(equal),
        "equal_refuted": sum(o.verdict == Kind.REFUTED.value for o in equal),
        "equal_with_all_pieces_shown": sum(o.shown for o in equal),
        "median_seconds": float(np.median([o.seconds for o in outcomes])) if outcomes else 0.0,
        "accepted": told([o for o in (*different, *useless) if o.accepted]),
        "fooled": told(fooled),
        "unnamed": told(unnamed),
    }
