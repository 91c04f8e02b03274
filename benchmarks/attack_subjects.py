"""The subjects of attacks on the verifier: references, and correct candidates to put faults into.

The catalogue's programs come with the candidates that the search finds for them, at their real
sizes. They are searched once and kept in a folder, which another machine can use without an
importer and without MLIR. Small graphs are written by hand; a seed chooses their sizes and tiles.
"""

from __future__ import annotations

import pickle
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from example_programs import graphs  # pyright: ignore[reportMissingImports]
from example_programs.moment_graphs import moment_pairs
from example_programs.position_masks import Mask
from example_programs.random_programs import Generator
from example_programs.stepped_loops import MORE_STEPPED, STEPPED, looped
from mirage.semantics.check import InvalidGraph, check_graph
from mirage.semantics.ugraph import External, KernelGraph, Launch
from mirage.transforms.steps.skip_steps import skip_steps

CANDIDATES = 3
"""The number of candidates that are taken of one program: the best ones with different numbers of
kernels."""
CATALOGUE, POSITIONS, SMALL = "catalogue", "positions", "small"


@dataclass(frozen=True)
class Subject:
    """A reference and a correct candidate. ``group`` says where it comes from."""

    name: str
    group: str
    reference: KernelGraph
    candidate: KernelGraph


# ---- small graphs


def small_subjects(seed: int) -> Iterator[Subject]:
    """Hand-written pairs, and random programs that are their own candidates; seed 0 gives the sizes
    that tests use."""
    rng = random.Random(seed)
    families = graphs.small_pairs() if seed == 0 else _families(rng)
    for name, pair in families.items():
        for other, candidate in pair.candidates.items():
            yield _small(f"{name}/{other}", pair.reference, candidate)
        yield _small(f"{name}/itself", pair.reference, pair.reference)
    yield from stepped_subjects()
    yield from moment_subjects(seed)
    made, number = 0, 0
    while made < 6:
        number += 1
        program = Generator(1000 * seed + number).graph()
        if program is not None and _is_small(program):
            made += 1
            yield _small(f"random {1000 * seed + number}", program, program)


def stepped_subjects(some: Mapping[str, tuple[Mask, int, int]] = STEPPED) -> Iterator[Subject]:
    """Loops over the steps that masks of positions leave."""
    for name, (mask, n, split) in some.items():
        whole = looped(mask, n, split)
        yield _small(f"{name}/steps left out", whole, skip_steps(whole))


def moment_subjects(seed: int = 0) -> Iterator[Subject]:
    """Variances, covariances and distances: results with one number for each row, or for each pair
    of rows."""
    rng = random.Random(seed)
    sizes = {} if seed == 0 else {"rows": rng.randint(9, 40), "width": rng.randint(17, 60)}
    for name, pair in moment_pairs(**sizes).items():
        for other, candidate in pair.candidates.items():
            yield _small(f"{name}/{other}", pair.reference, candidate)
        yield _small(f"{name}/itself", pair.reference, pair.reference)


def _small(name: str, reference: KernelGraph, candidate: KernelGraph) -> Subject:
    return Subject(name, SMALL, reference, candidate)


def _is_small(graph: KernelGraph) -> bool:
    return all(v.type.size <= 1 << 14 for op in graph.ops for v in op.results)


def _families(rng: random.Random) -> dict[str, graphs.Pair]:
    def n(low: int, high: int) -> int:
        return rng.randint(low, high)

    heads, rows, keys, width = n(1, 3), n(2, 6), n(5, 14), n(2, 6)
    splits, steps = rng.choice([(1, 2), (1, 3), (2, 1), (2, 2), (3, 1)])
    while (splits * steps - 1) * -(-keys // (splits * steps)) >= keys:
        keys += 1  # no part without a key
    blocks = n(1, min(3, rows))
    return {
        "rms_linear": graphs.rms_linear(n(2, 6), n(6, 20), n(3, 12), blocks=n(1, 4), steps=n(1, 4)),
        "attention": graphs.attention(
            heads, rows, keys, width, splits=splits, steps=steps, row_blocks=blocks
        ),
        "attention_scaled": graphs.attention(
            heads, rows, keys, width, splits=splits, steps=steps, scale=rng.choice([0.5, 0.3, 2.0])
        ),
        "lora": graphs.lora(n(2, 6), n(4, 12), n(4, 10), n(1, 4), blocks=n(1, 3), steps=n(1, 3)),
        "swiglu": graphs.swiglu(n(2, 6), n(4, 12), n(4, 10), blocks=n(1, 3), steps=n(1, 4)),
        "softmax": graphs.softmax(n(2, 8), 12, row_blocks=n(1, 3), steps=n(1, 4)),
        "layer_norm": graphs.layer_norm(
            n(2, 8), 2 * n(3, 8), row_blocks=n(1, 3), steps=rng.choice([1, 2])
        ),
    }


# ---- the catalogue


def catalogue_subjects(folder: Path) -> Iterator[Subject]:
    """Return the subjects that :func:`prepare` and :func:`prepare_layers` left in a folder."""
    for file in sorted(folder.glob("*.subject")):
        reference, candidates = pickle.loads(file.read_bytes())
        group = POSITIONS if file.stem.startswith(POSITIONS) else CATALOGUE
        yield Subject(f"{file.stem}/itself", group, reference, reference)
        for number, candidate in enumerate(candidates):
            kernels = sum(isinstance(op, Launch) for op in candidate.ops)
            name = f"{file.stem}/{number}: {kernels} kernels"
            yield Subject(name, group, reference, candidate)


def prepare(names: Sequence[str], folder: Path) -> None:
    """Search the programs that are not in the folder yet: built-in programs by their names, and
    attention with masks made of positions."""
    from example_programs.index_programs import PROGRAMS, index_candidates
    from example_programs.lookup_programs import LOOKUPS, lookup_candidates
    from example_programs.position_programs import MASKS
    from found import found_candidates

    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        if not list(folder.glob(f"{name}.*.subject")):
            for part, reference, found in found_candidates([name], None):
                _keep(folder / f"{part.replace('/', '.')}.subject", reference, found)
    for name in MASKS:
        file = folder / f"{POSITIONS}_{name}.subject"
        if not file.exists():
            reference, *found = (s.candidate for s in masked_subjects(name))
            _keep(file, reference, found)
    for some, candidates in ((LOOKUPS, lookup_candidates), (PROGRAMS, index_candidates)):
        for name in some:
            file = folder / f"{POSITIONS}_{name}.subject"
            if not file.exists():
                _keep(file, *candidates(name))


def prepare_layers(folder: Path) -> None:
    """Search the layers of the gallery that are not in the folder yet; they are kept with the
    values that their tensors hold."""
    from layer_attack import LAYERS, layer_subjects

    for name in LAYERS:
        layer_subjects(name, folder)


def searched(name: str) -> Iterator[Subject]:
    """Return the subjects of a built-in program, searched now."""
    from found import found_candidates

    for part, reference, found in found_candidates([name], None):
        yield Subject(f"{part}/itself", CATALOGUE, reference, reference)
        for number, candidate in enumerate(_taken(part, found)):
            yield Subject(f"{part}/{number}", CATALOGUE, reference, candidate)


def masked_subjects(name: str) -> Iterator[Subject]:
    """Return attention with a mask made of positions, searched now: with a running maximum, and
    without the steps that the mask empties."""
    from example_programs.position_programs import MASKS, attention, candidates
    from mirage.transforms import stabilize

    reference = attention(MASKS[name])
    yield Subject(f"{name}/itself", POSITIONS, reference, reference)
    for number, found in enumerate(candidates(name)):
        stable = stabilize(found).graph
        yield Subject(f"{name}/{number}", POSITIONS, reference, stable)
        if number == 0:
            fewer = skip_steps(stable)
            yield Subject(f"{name}/{number}, fewer steps", POSITIONS, reference, fewer)


def lookup_subjects(name: str) -> Iterator[Subject]:
    """Return a program with lookups or heads, searched now."""
    from example_programs.lookup_programs import lookup_candidates

    reference, found = lookup_candidates(name)
    yield Subject(f"{name}/itself", POSITIONS, reference, reference)
    for number, candidate in enumerate(_taken(name, found)):
        yield Subject(f"{name}/{number}", POSITIONS, reference, candidate)


def position_subjects(folder: Path | None) -> Iterator[Subject]:
    """Return the subjects whose results depend on positions: from a folder or, without one, small
    ones."""
    yield from stepped_subjects(STEPPED | MORE_STEPPED)
    if folder is not None:
        yield from (s for s in catalogue_subjects(folder) if s.group == POSITIONS)


def _keep(file: Path, reference: KernelGraph, found: Sequence[KernelGraph]) -> None:
    taken = _taken(file.name, found)
    file.write_bytes(pickle.dumps((reference, taken)))
    print(f"{file.name}: {len(taken)} candidates", file=sys.stderr)


def _taken(name: str, found: Sequence[KernelGraph]) -> list[KernelGraph]:
    """Return the best candidates with different numbers of kernels, then the others."""
    kernels: dict[int, list[KernelGraph]] = {}
    for candidate in found:
        try:
            check_graph(candidate)
        except InvalidGraph as error:
            print(f"{name}: left out: {error}", file=sys.stderr)
            continue
        if not any(isinstance(op, External) for op in candidate.ops):
            count = sum(isinstance(op, Launch) for op in candidate.ops)
            kernels.setdefault(count, []).append(candidate)
    taken = [few[0] for few in kernels.values()]
    taken += [candidate for few in kernels.values() for candidate in few[1:]]
    return taken[:CANDIDATES]
