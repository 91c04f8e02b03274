"""Structural rules of µGraphs, checked before a graph is used.

Search results, hand-written graphs and mutants all pass through :func:`check_graph`. The rules,
which error messages cite:

* C1 every operand is defined before it is used and in scope; a value is defined once;
* C2 shapes and element types of results follow from the operands (``Builder`` states the rules);
* C3 every size, extent and tile size is at least 1;
* C4 an op stands at a level where it has a meaning (loads, masks and loops in blocks; composites
  and launches outside);
* C5 the params of a launch match its operands in number and type, its outputs match its results in
  number and shape rank;
* C6 axis names are unique within a launch; a map names only axes that are in scope, each at most
  once in a dimension;
* C7 maps cover: ``tile * parts >= size`` in every dimension;
* C8 a store's map names each grid axis once, or the stored value does not depend on that axis;
* C9 accumulators read values in scope; ``rescale`` goes with SUM and names a running maximum of the
  same loop;
* C10 constants are not NaN; a mask's extent lies within the masked dimension;
* C11 the steps that a loop takes depend on axes of the grid and on parts of integer params, and are
  divided by at least 1.
"""

from __future__ import annotations

from mirage.semantics.check.launch_rules import LaunchChecker
from mirage.semantics.check.op_rules import InvalidGraph as InvalidGraph
from mirage.semantics.check.op_rules import check_scope, check_type, define
from mirage.semantics.check.op_rules import result_type as result_type
from mirage.semantics.ugraph import External, KernelGraph, Launch, Value


def check_graph(graph: KernelGraph) -> None:
    """Raise :class:`InvalidGraph` at the first rule that ``graph`` breaks."""
    where = f"graph '{graph.name}'" if graph.name else "graph"
    defined: set[Value] = set()
    for i, v in enumerate(graph.inputs):
        define(defined, v, f"{where}, input {i}")
    for number, op in enumerate(graph.ops):
        at = f"{where}, op {number} ({type(op).__name__.lower()})"
        check_scope(op, defined, at)
        if not op.in_kernel:
            raise InvalidGraph(
                "C4", at, "expected an op of the kernel level, got one of the block level"
            )
        if isinstance(op, Launch):
            LaunchChecker(op, at).check()
        elif not isinstance(op, External):  # a call declares the types of its results
            check_type(op, at, in_block=False)
        for v in op.results:
            define(defined, v, at)
    if not graph.outputs:
        raise InvalidGraph("C1", where, "expected at least one output, got none")
    for i, v in enumerate(graph.outputs):
        if v not in defined:
            raise InvalidGraph(
                "C1",
                f"{where}, output {i}",
                "expected a value that the graph defines, got another one",
            )
