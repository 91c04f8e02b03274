"""Programs that are read with rules for rows: places, orders, and elements that are picked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mirage.semantics.bounds.integer_ranges import Range
from mirage.semantics.builder import Builder
from mirage.semantics.ops.kinds import Contraction, Elementwise, Lookup
from mirage.semantics.ops.op import Op, Value
from mirage.semantics.scalar import Array, BinaryFn, ReduceFn
from mirage.semantics.substitute import rename_graph, without_dead_ops
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.normal_form.counted_places import counted_places_rule, limits_rule
from mirage.verify.normal_form.known_products import moved_columns_rule
from mirage.verify.normal_form.known_truths import (
    compared_truth_rule,
    factor_rule,
    known_rule,
    masked_product_rule,
    masked_truths_rule,
    outer_mask_rule,
    whole_cast_rule,
)
from mirage.verify.normal_form.largest_kept import largest_kept_rule
from mirage.verify.normal_form.last_writes import (
    any_written_rule,
    last_write_rule,
    truth_of_count_rule,
    written_rule,
)
from mirage.verify.normal_form.one_index import one_index_rule
from mirage.verify.normal_form.one_of_a_row import first_place_rule, picked_rule
from mirage.verify.normal_form.orders import compared_rule, largest_rule
from mirage.verify.normal_form.place_of_largest import kept_at_largest_rule
from mirage.verify.normal_form.places_of_ranks import (
    element_of_rank_rule,
    first_ranks_rule,
    kept_twice_rule,
    place_of_rank_rule,
    sum_of_ranks_rule,
)
from mirage.verify.normal_form.reading import Rule, read_again
from mirage.verify.normal_form.rows_by_sums import (
    below_zero_rule,
    looked_up_rule,
    numbers_looked_up,
)
from mirage.verify.normal_form.swapped_sums import swapped_sums_rule
from mirage.verify.normal_form.table_indices import (
    looked_up_with,
    made_of_places,
    picked_with,
)
from mirage.verify.normal_form.two_values import weighed_rule
from mirage.verify.normal_form.weighed_products import weighed_product_rule

_RULES = (
    known_rule,
    compared_truth_rule,
    masked_product_rule,
    masked_truths_rule,
    outer_mask_rule,
    whole_cast_rule,
    looked_up_rule,
    below_zero_rule,
    one_index_rule,
    last_write_rule,
    written_rule,
    any_written_rule,
    truth_of_count_rule,
    first_place_rule,
    picked_rule,
    counted_places_rule,
    limits_rule,
    swapped_sums_rule,
    weighed_rule,
    weighed_product_rule,
    moved_columns_rule,
    largest_rule,
    largest_kept_rule,
    kept_at_largest_rule,
    compared_rule,
)
_RANKS = (
    place_of_rank_rule,
    first_ranks_rule,
    element_of_rank_rule,
    sum_of_ranks_rule,
    kept_twice_rule,
)
"""Rules that express operations at the places of some ranks by the ranks."""

_READ = (ReduceFn.MAX, BinaryFn.KEEP, BinaryFn.EQ, BinaryFn.LT, BinaryFn.LE)


def reads_otherwise(*graphs: KernelGraph) -> bool:
    """Return whether programs contain anything to which the rules apply."""
    ops = (op for graph in graphs for op in graph.ops)
    return any(op.function in _READ or _is_read(op) for op in ops)


def _is_read(op: Op) -> bool:
    """Return whether an op is a lookup, a product of matrices, or a conversion to integers."""
    if isinstance(op, Elementwise) and op.cuts:
        return True
    return isinstance(op, Lookup) or (isinstance(op, Contraction) and len(op.operands) == 2)


@dataclass(frozen=True)
class Places:
    """The inputs, by number, that name elements of rows in a program, with the number of elements;
    the program has no meaning if they name none. If the inputs in ``infinite`` name none, the
    program gives minus infinity."""

    counts: Mapping[int, int]
    infinite: Mapping[int, int] = field(default_factory=dict[int, int])


def named_places(program: KernelGraph, contents: Mapping[int, Array]) -> Places:
    """Return the inputs that name places in a program of primitive ops."""
    made = _least(made_of_places(program), numbers_looked_up(program, contents))
    made = {i: n for i, n in made.items() if i not in contents}
    picked = picked_with(program, _known(program, contents))
    return Places(_least(made, picked), {i: n for i, n in picked.items() if i not in made})


def assumed_places(programs: Sequence[KernelGraph], contents: Mapping[int, Array]) -> Places:
    """Return what the programs are if indices are assumed to be in range."""
    found: Mapping[int, int] = {}
    for program in programs:
        known = _known(program, contents)
        for named in (
            looked_up_with(program),
            made_of_places(program),
            numbers_looked_up(program, contents),
            picked_with(program, known, kept=True),
        ):
            found = _least(found, {i: n for i, n in named.items() if i not in contents})
    return Places(found)


def _known(program: KernelGraph, contents: Mapping[int, Array]) -> Mapping[Value, Range]:
    return {
        program.inputs[i]: (float(x.min()), float(x.max()))
        for i, x in contents.items()
        if x.size and program.inputs[i].dtype.is_integer
    }


def _least(first: Mapping[int, int], second: Mapping[int, int]) -> dict[int, int]:
    found = dict(first)
    for i, n in second.items():
        found[i] = min(found.get(i, n), n)
    return found


def within_places(
    graph: KernelGraph, contents: Mapping[int, Array], places: Mapping[int, int]
) -> KernelGraph:
    """Return a program of primitive ops without the parts that matter only if ``places`` name no
    element. It has no operation that the given program does not have."""
    given = {i: (0.0, float(count - 1)) for i, count in places.items()}
    return without_dead_ops(read_again(graph, contents, given, (known_rule,)))


def in_range(graph: KernelGraph, places: Mapping[int, int]) -> KernelGraph:
    """Return a program that first clamps the inputs that name places: it is the same wherever
    ``places`` name an element."""
    b, names = Builder(), dict[Value, Value]()
    for i, count in places.items():
        x = graph.inputs[i]
        least, most = (b.constant(float(n), x.dtype) for n in (0, count - 1))
        least = b.binary(BinaryFn.MAX, x, least)
        names[x] = b.binary(BinaryFn.MIN, least, most)
    body = rename_graph(KernelGraph(graph.name, (), graph.ops, graph.outputs), names)
    return KernelGraph(graph.name, graph.inputs, (*b.ops, *body.ops), body.outputs)


def with_masks_as_factors(graph: KernelGraph, contents: Mapping[int, Array]) -> KernelGraph | None:
    """Return a program of primitive ops in which masked values are products with truth values, so
    that they may be multiplied out; None if there are none."""
    found = without_dead_ops(read_again(graph, contents, {}, (factor_rule,)))
    before, after = (sum(op.function is BinaryFn.KEEP for op in g.ops) for g in (graph, found))
    return found if after < before else None


def read_by_rows(
    reference: KernelGraph,
    candidate: KernelGraph,
    contents: Mapping[int, Array],
    places: Mapping[int, int],
    *,
    lookups: bool = False,
    ranks: bool = False,
) -> tuple[KernelGraph, KernelGraph]:
    """Rewrite both programs, which have primitive ops and the same inputs. The contents of some
    inputs are known, and those in ``places`` are below their bounds. Indices with which the
    reference looks up rows lie within the table. With ``lookups``, lookups are not written as sums.
    With ``ranks``, values that are scattered to the places of the largest elements are written with
    the ranks of all elements."""
    rules = tuple(r for r in _RULES if not lookups or r is not looked_up_rule)
    if ranks:
        rules = (*_RANKS, *rules)
    named = {**looked_up_with(reference), **places}
    given = {i: (0.0, float(count - 1)) for i, count in named.items() if i not in contents}
    first, second = (_read_twice(g, contents, given, rules) for g in (reference, candidate))
    return first, second


def _read_twice(
    graph: KernelGraph,
    contents: Mapping[int, Array],
    given: Mapping[int, Range],
    rules: tuple[Rule, ...],
) -> KernelGraph:
    """Rewrite a program, and then the result of the rules."""
    for _ in range(2):
        graph = without_dead_ops(read_again(graph, contents, given, rules))
    return graph
