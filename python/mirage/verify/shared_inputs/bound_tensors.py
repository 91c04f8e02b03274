"""The tensors that two programs hold, matched with each other.

A module holds tensors that its caller does not pass: parameters, buffers, constants. They are part
of the program. A *parameter* may hold anything: two programs are compared for all of its values,
and it is the same parameter in both if it has the same name (or the name that an explicit pair
gives it). The contents of a *buffer* or *constant* are fixed: it is the same in both if it holds
the same elements, whatever its name.

:func:`align` writes both programs with one list of inputs: first those that a caller passes, by
position, then the bound tensors. A tensor that only one of them reads becomes an input that the
other ignores, so different tensors are never matched by position.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mirage.semantics.scalar import Array
from mirage.semantics.substitute import rename_graph
from mirage.semantics.ugraph import Cast, KernelGraph, TensorType, Value
from mirage.verify.shared_inputs.equal_elements import (
    filled,
    is_uniform,
    opposites_of,
    with_opposites,
)
from mirage.verify.shared_inputs.held_parts import joined_of_others, with_parts_joined
from mirage.verify.shared_inputs.held_positions import read, with_positions_written
from mirage.verify.shared_inputs.sums_of_held import (
    read_as_sums,
    rests_of,
    with_sums_written,
)
from mirage.verify.verify_options import SignatureMismatch


class UnmatchedTensors(SignatureMismatch):
    """A program holds a tensor that the other one does not hold."""


@dataclass(frozen=True)
class Bound:
    """A tensor that a program holds: the graph input that stands for it, its name, and its elements
    if they are known. A parameter may hold anything; if it is tied, it has other names, too."""

    index: int
    name: str
    trained: bool = True
    content: Array | None = None
    also: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        return frozenset((self.name, *self.also))


@dataclass(frozen=True)
class Stated:
    """A program as it is compared.

    ``keys`` and ``results`` have an entry for each result: its place, and the output that it is, or
    its value if it is not a tensor. ``unread`` names tensors that it holds and does not read.
    Without ``named``, all inputs are matched by position. With ``misses_are_errors``, it adds minus
    infinity only where a lookup names no element, which is an error."""

    graph: KernelGraph
    bound: tuple[Bound, ...] = ()
    unread: frozenset[str] = frozenset()
    keys: tuple[str, ...] = ()
    results: tuple[int | Result, ...] = ()
    named: bool = True
    misses_are_errors: bool = False


@dataclass(frozen=True)
class Result:
    """A result that is not a tensor."""

    value: bool | int | float | str | None


@dataclass(frozen=True)
class Aligned:
    """Two graphs with the same inputs and outputs in the same order.

    ``contents`` are the values of inputs that stand for buffers and constants; ``foreign`` are
    those of these inputs that only one program reads. ``different`` says which results already
    differ in values that are not tensors; ``misses_are_errors`` is that of the reference."""

    reference: KernelGraph
    candidate: KernelGraph
    contents: Mapping[int, Array] = field(default_factory=dict[int, Array])
    foreign: frozenset[int] = frozenset()
    different: str = ""
    misses_are_errors: bool = False


def align(
    reference: Stated, candidate: Stated, pairs: Mapping[str, str] = {}, *, by_key: bool = True
) -> Aligned:
    """Write both programs with one list of inputs, and put the outputs of ``candidate`` in the
    order of the keys of ``reference`` (``by_key``). ``pairs`` maps names in the reference to names
    in the candidate. Raises :class:`SignatureMismatch` if that is not possible.
    """
    second, different = _by_key(reference, candidate) if by_key else (candidate.graph, "")
    if not (reference.named and candidate.named):
        misses = reference.misses_are_errors
        return Aligned(reference.graph, second, different=different, misses_are_errors=misses)
    first_keys, second_keys = _keys(reference, candidate, pairs)
    _check_known(reference, candidate, first_keys, second_keys, pairs)
    inputs: list[Value] = list(_passed(reference))
    passed = len(inputs)
    if len(_passed(candidate)) != passed:
        raise SignatureMismatch(
            f"inputs: expected {passed} that a caller passes, got {len(_passed(candidate))}"
        )
    types = _types([(reference, first_keys), (candidate, second_keys)])
    slots: dict[str, int] = {}
    contents: dict[int, Array] = {}
    first, other = dict[Value, Value](), dict[Value, Value]()
    for stated, keys, names in (
        (reference, first_keys, first),
        (candidate, second_keys, other),
    ):
        for bound, key in zip(stated.bound, keys, strict=True):
            value = stated.graph.inputs[bound.index]
            if key not in slots:
                slots[key] = len(inputs)
                inputs.append(Value(types[key], bound.name))
            slot = slots[key]
            if inputs[slot].type != value.type and not key.startswith(_CONTENT):
                raise SignatureMismatch(
                    f"{bound.name!r}: expected {inputs[slot].type}, got {value.type}"
                )
            if bound.content is not None and key.startswith(_CONTENT):
                contents[slot] = bound.content
            names[value] = inputs[slot]
    for (x, y), v in zip(
        zip(_passed(reference), _passed(candidate), strict=True), inputs, strict=False
    ):
        if x.type != y.type:
            raise SignatureMismatch(
                f"inputs: expected type {x.type}, got {y.type} for {x.name or 'an input'!r}"
            )
        other[y] = v
    both = set(first_keys) & set(second_keys)
    foreign = frozenset(i for key, i in slots.items() if i in contents and key not in both)
    graphs = (
        _with_inputs(reference.graph, first, inputs),
        _with_inputs(second, other, inputs),
    )
    misses = reference.misses_are_errors
    return _brought_together(Aligned(*graphs, contents, foreign, different, misses))


def _brought_together(given: Aligned) -> Aligned:
    """Return the same programs without those ``foreign`` tensors that can be expressed in another
    way."""
    inputs, contents, foreign = given.reference.inputs, given.contents, given.foreign
    uniform = {i: x for i, x in contents.items() if foreign and is_uniform(x)}
    own = {i: contents[i] for i in sorted(foreign - uniform.keys())}
    opposite = opposites_of(inputs, own, contents)
    left = {i: read(x, inputs[i].dtype) for i, x in own.items() if i not in opposite}
    held = {i: x for i, x in left.items() if x is not None}
    known = {*uniform, *opposite, *held}
    others = {i: x for i, x in contents.items() if i not in known}
    joined = joined_of_others(inputs, {i: own[i] for i in own if i not in known}, others)
    one, two = (
        with_parts_joined(
            with_positions_written(with_opposites(filled(g, uniform), opposite), held), joined
        )
        for g in (given.reference, given.candidate)
    )
    known |= {*joined}
    sums = read_as_sums(inputs, {i: x for i, x in own.items() if i not in known})
    if sums:
        rests = rests_of(inputs, sums)
        one, two = (with_sums_written(g, sums, rests) for g in (one, two))
        further = dict(enumerate((s.rest for s in sums.values()), len(inputs)))
        contents, known = {**contents, **further}, {*known, *sums}
    return replace(given, reference=one, candidate=two, contents=contents, foreign=foreign - known)


_CONTENT, _NAME = "content ", "name "


def _passed(stated: Stated) -> tuple[Value, ...]:
    bound = {b.index for b in stated.bound}
    return tuple(v for i, v in enumerate(stated.graph.inputs) if i not in bound)


def _types(programs: Sequence[tuple[Stated, Sequence[str]]]) -> dict[str, TensorType]:
    """Return the type of each tensor: if the programs hold the same elements in two types, as truth
    values and as ones and zeros, the narrower one."""
    types: dict[str, TensorType] = {}
    for stated, keys in programs:
        for bound, key in zip(stated.bound, keys, strict=True):
            given = stated.graph.inputs[bound.index].type
            known = types.setdefault(key, given)
            if key.startswith(_CONTENT):
                types[key] = min(known, given, key=lambda t: (t.dtype.bits, not t.dtype.is_integer))
    return types


def _with_inputs(
    graph: KernelGraph, names: Mapping[Value, Value], inputs: Sequence[Value]
) -> KernelGraph:
    """Return a program with other inputs; ``names`` maps its own ones to these."""
    different = {v: x for v, x in names.items() if x.type != v.type}
    casts = {v: Cast((x,), (Value(v.type, v.name),)) for v, x in different.items()}
    renamed = rename_graph(graph, {**names, **{v: op.results[0] for v, op in casts.items()}})
    ops = (*casts.values(), *renamed.ops)
    return KernelGraph(graph.name, tuple(inputs), ops, renamed.outputs)


# ---- matching of tensors


def _keys(
    reference: Stated, candidate: Stated, pairs: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Return a key for each bound tensor of both programs; the same tensors have the same key."""
    for name, stated, what in (
        *((a, reference, "reference") for a in pairs),
        *((b, candidate, "candidate") for b in pairs.values()),
    ):
        known = sorted({b.name for b in stated.bound} | stated.unread)
        if name not in known:
            there = ", ".join(map(repr, known)) or "none"
            raise UnmatchedTensors(
                f"expected a tensor that the {what} holds, got {name!r}: {there}"
            )
    if len(set(pairs.values())) != len(pairs):
        raise UnmatchedTensors("expected each tensor of the candidate to be matched once")
    back = {**_tied(reference, candidate), **{b: a for a, b in pairs.items()}}
    by_name = {b.name for s in (reference, candidate) for b in s.bound if b.content is None}

    def key(bound: Bound, given: bool, name: str) -> str:
        # Buffers in IR come without their elements, so they are matched by name.
        if given or bound.content is None or name in by_name:
            return _NAME + name
        content = np.ascontiguousarray(bound.content)
        digest = hashlib.sha256(content.tobytes()).hexdigest()
        return f"{_CONTENT}{content.shape} {digest}"

    return (
        [key(b, b.name in pairs, b.name) for b in reference.bound],
        [key(b, b.name in back, back.get(b.name, b.name)) for b in candidate.bound],
    )


def _tied(reference: Stated, candidate: Stated) -> dict[str, str]:
    """Return the names in the reference of the candidate's parameters that are the same by another
    one of their names. Each has names in common with only one tensor of the other program."""
    found: dict[str, str] = {}
    for b in candidate.bound:
        same = [a for a in reference.bound if a.names & b.names]
        if len(same) != 1 or same[0].name == b.name:
            continue
        (a,) = same
        others = [x for x in candidate.bound if x.names & a.names]
        unread = (reference.unread & b.names - a.names, candidate.unread & a.names - b.names)
        if len(others) == 1 and not any(unread):
            found[b.name] = a.name
    return found


def _check_known(
    reference: Stated,
    candidate: Stated,
    first: Sequence[str],
    second: Sequence[str],
    pairs: Mapping[str, str],
) -> None:
    """Check that each parameter is held by both programs (only one of them needs to read it) and is
    a parameter in both. Raises otherwise."""
    problems: list[str] = []
    for mine, keys, theirs, other, what in (
        (reference, first, second, candidate, "candidate"),
        (candidate, second, first, reference, "reference"),
    ):
        missing = [
            repr(b.name)
            for b, key in zip(mine.bound, keys, strict=True)
            if key.startswith(_NAME) and key not in theirs and b.name not in other.unread
        ]
        if missing:
            problems.append(f"the {what} has no {', '.join(missing)}")
    others = dict(zip(second, candidate.bound, strict=True))
    for a, key in zip(reference.bound, first, strict=True):
        b = others.get(key)
        fixed = b is not None and (a if b.trained else b).content is not None
        if b is not None and a.trained != b.trained and fixed and a.name not in pairs:
            kinds = ("a parameter", "a buffer or constant")
            mine, theirs = kinds if a.trained else kinds[::-1]
            problems.append(f"{a.name!r} is {mine} of the reference and {theirs} of the candidate")
    if problems:
        names = (", ".join(repr(b.name) for b in s.bound) or "none" for s in (reference, candidate))
        raise UnmatchedTensors(
            f"tensors that the programs hold: {'; '.join(problems)} (they read "
            f"{' and '.join(names)}); name those that are the same with --match "
            "REFERENCE=CANDIDATE"
        )


# ---- results


def _by_key(reference: Stated, candidate: Stated) -> tuple[KernelGraph, str]:
    """Return the candidate with its outputs in the reference's order of keys."""
    if not (reference.keys and candidate.keys):
        return candidate.graph, ""
    single = len(reference.keys) == len(candidate.keys) == 1
    if not single and sorted(reference.keys) != sorted(candidate.keys):
        raise SignatureMismatch(
            f"outputs: expected {', '.join(reference.keys)}, got {', '.join(candidate.keys)}"
        )
    theirs = (
        candidate.results
        if single
        else [candidate.results[candidate.keys.index(key)] for key in reference.keys]
    )
    outputs: list[Value] = []
    for key, mine, other in zip(reference.keys, reference.results, theirs, strict=True):
        if isinstance(other, int):
            outputs.append(candidate.graph.outputs[other])
        if isinstance(mine, int) != isinstance(other, int) or (
            isinstance(mine, Result) and mine != other
        ):
            shown = [r.value if isinstance(r, Result) else "a tensor" for r in (mine, other)]
            return candidate.graph, f"result {key}: expected {shown[0]}, got {shown[1]}"
    g = candidate.graph
    return KernelGraph(g.name, g.inputs, g.ops, tuple(outputs)), ""
