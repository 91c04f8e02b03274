"""``flex_attention`` as a formula of ordinary ops.

Its functions of scores and positions (``score_mod``, ``mask_mod``) are traced for whole tensors, as
PyTorch's own definition of the op applies them (:func:`torch.vmap` over batch, head, query and
key), and the traced ops take the op's place: scores in f32, the function of scores, minus infinity
where the mask is false, softmax, and the product with the values. A row that the mask empties is
zero.

The lists of blocks in a ``BlockMask`` say which blocks have elements that its ``mask_mod`` does not
mask; they follow from it and are not read. A mask that consists only of lists of blocks is refused.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from mirage.frontend.errors import UnsupportedOpError
from mirage.frontend.torch_import.capture.places import place_of

aten: Any = torch.ops.aten
Tensor = torch.Tensor
Function = Callable[..., Tensor]
POSITIONS = 4
"""Batch, head, query and key: the arguments of a ``mask_mod``, and of a ``score_mod`` after the
score."""


def is_attention(node: Node) -> bool:
    """Return whether a node is a call of ``flex_attention``."""
    return node.op == "call_function" and str(node.target) == "flex_attention"


def with_attention_formulas(exported: ExportedProgram) -> None:
    """Replace the calls of ``flex_attention`` in a program. Raises :class:`UnsupportedOpError`."""
    graph, root = exported.graph, exported.graph_module
    found = [node for node in graph.nodes if is_attention(node)]
    for node in found:
        tensors, traced = _traced(node, root)
        with graph.inserting_before(node):
            results: Any = graph.graph_copy(
                traced, dict(zip(traced.find_nodes(op="placeholder"), tensors, strict=True))
            )
        for user in list(node.users):
            assert user.target is operator.getitem
            user.replace_all_uses_with(results[user.args[1]])
            graph.erase_node(user)
        graph.erase_node(node)
    if found:
        _drop_lists_of_blocks(graph)
        root.recompile()


def _drop_lists_of_blocks(graph: Graph) -> None:
    """Remove the ops that made the lists of blocks, which nothing reads any more. This includes ops
    that write to tensors which nothing else uses, and the marks of functions that ``torch.vmap``
    applies."""
    live: dict[Node, None] = {}
    pending = [n for n in graph.nodes if n.op in ("placeholder", "output")]
    while pending:
        node = pending.pop()
        if node not in live:
            live[node] = None
            pending += [n for n in node.all_input_nodes if n not in live]
            pending += [n for n in node.users if _writes(n)]
    for node in reversed(graph.nodes):
        if node not in live:
            graph.erase_node(node)


def _writes(node: Node) -> bool:
    """Return whether an op has an effect on the tensors that it reads."""
    schema: Any = getattr(node.target, "_schema", None)
    return bool(schema is not None and schema.is_mutable) or str(node.target).startswith(
        ("aten._assert", "aten.sym_constrain")
    )


def _traced(node: Any, root: GraphModule) -> tuple[list[Node], Graph]:
    """Return the tensors that a call reads, and the formula as a graph with these as inputs."""
    q, k, v, score_mod, block_mask, scale, _, *buffers = (*node.args, *node.kwargs.values())
    of_scores, of_mask = (tuple(b) for b in (*buffers, (), ())[:2])
    mask_mod = block_mask[-1]
    bodies = [_body(root, x) for x in (score_mod, mask_mod)]
    tensors = [x for x in (q, k, v, *of_scores, *of_mask) if isinstance(x, Node)]
    if len(tensors) != 3 + len(of_scores) + len(of_mask):
        raise _refused(node, "functions that read something else than tensors")
    score, mask = (_called(node, body) for body in bodies)

    def formula(q: Tensor, k: Tensor, v: Tensor, *read: Tensor) -> tuple[Tensor, ...]:
        split = len(of_scores)
        return attention(
            q, k, v, scale,
            lambda *x: score(*x, *read[:split]), lambda *x: mask(*x, *read[split:]),
            masks=_reads(bodies[1]), infinite=_has_infinity(bodies[0]),
        )  # fmt: skip

    if not _reads(bodies[1]) and _has_blocks(block_mask):
        raise _refused(node, "a mask of blocks without a mask_mod")
    with FakeTensorMode() as mode, torch.no_grad():
        values = (x.meta["val"] for x in tensors)
        fakes = [torch.empty_strided(x.shape, x.stride(), dtype=x.dtype) for x in values]
        traced = make_fx(formula)(*fakes)
        for made in traced.graph.nodes:
            number = made.target is aten._to_copy.default and isinstance(made.args[0], int | float)
            if number:
                made.target = aten.scalar_tensor.default
                made.kwargs = {"dtype": made.kwargs["dtype"]}
            made.meta = {"stack_trace": node.meta.get("stack_trace")}
        traced.graph.eliminate_dead_code()
        FakeTensorProp(traced, mode).propagate_dont_convert_inputs(*fakes)
    return tensors, traced.graph


def attention(
    q: Tensor, k: Tensor, v: Tensor, scale: float, score: Function, mask: Function,
    *, masks: bool, infinite: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return the results of ``flex_attention``: the output, the logarithm to base 2 of the sums of
    exponentials, and the largest scores over ln 2. ``masks`` says that the mask has an effect, and
    ``infinite`` that the function of scores may give minus infinity."""
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    rows, heads = q.shape[-2], q.shape[1]
    groups = k.shape[1]  # query heads of a group are rows of one matrix, so keys are not repeated
    together = q.reshape(q.shape[0], groups, heads // groups * rows, q.shape[-1])
    scores = together.to(wide) @ k.to(wide).transpose(-2, -1)
    scores = scores.reshape(*q.shape[:-1], k.shape[-2]) * scale
    places = [torch.arange(n) for n in scores.shape]
    seen = _everywhere(mask, 0)(*places) if masks else None
    scores = _everywhere(score, 1)(scores, *places).to(wide)
    if seen is not None:
        scores = torch.where(seen, scores, -math.inf)
    weights = torch.softmax(scores, -1).to(q.dtype)
    weights = weights.reshape(*together.shape[:-1], k.shape[-2])
    y = (weights @ v.to(q.dtype)).reshape(*q.shape[:-1], v.shape[-1])
    sums, most = torch.logsumexp(scores, -1), scores.amax(-1)
    if infinite:
        seen = scores > -math.inf
    if seen is not None:
        some = seen.any(-1)
        y = torch.where(some[..., None], y, 0.0)
        sums = torch.where(some, sums, -math.inf)
    return y, sums / math.log(2), most / math.log(2)


def _everywhere(function: Function, before: int) -> Function:
    """Return a function of a batch, a head, a query and a key for all of them, as PyTorch's
    definition of the op applies it; the first ``before`` arguments have all four dimensions."""
    for at in reversed(range(POSITIONS)):
        dims = tuple(0 if i == at else None for i in range(POSITIONS))
        function = torch.vmap(function, in_dims=(*(0,) * before, *dims))
    return function


def _body(root: GraphModule, function: Any) -> Graph:
    body: Any = root.get_submodule(str(function.target))
    return body.graph


def _called(node: Node, body: Graph) -> Function:
    """Return the function that a graph of scalars computes, with its lookups as ops."""
    graph, copies = Graph(), dict[Node, Node]()
    for x in body.nodes:
        if str(x.target) == "flat_apply":
            _, _, what, table, *indices = x.args
            plain = str(what).strip("<>' ").endswith(".ModIndex")
            if not plain or not all(isinstance(i, Node) for i in (table, *indices)):
                raise _refused(node, f"{what} in a function of scores or positions")
            copies[x] = graph.call_function(
                aten.index.Tensor, (copies[table], [copies[i] for i in indices])
            )
        elif x.op == "call_function" and not isinstance(x.target, OpOverload):
            if x.target is not operator.getitem:
                raise _refused(node, f"{x.target} in a function of scores or positions")
            copies[x] = graph.node_copy(x, copies.__getitem__)
        elif x.op != "get_attr":
            copies[x] = graph.node_copy(x, copies.__getitem__)
        elif any(str(user.target) != "flat_apply" for user in x.users):
            raise _refused(node, "a tensor in a function of scores or positions")
    module = GraphModule(torch.nn.Module(), graph)
    return module.forward


def _reads(body: Graph) -> bool:
    """Return whether a mask depends on positions at all."""
    return any(x.users for x in body.find_nodes(op="placeholder")[:POSITIONS]) and any(
        x.all_input_nodes and "new_ones" not in str(x.target) for x in body.nodes
        if x.op == "call_function"
    )  # fmt: skip


def _has_infinity(body: Graph) -> bool:
    """Return whether a function may give minus infinity for finite scores: it has an infinite
    number, or reads tensors other than integers."""
    numbers = (a for x in body.nodes for a in (*x.args, *x.kwargs.values()))
    read = (x.meta["val"].dtype for x in body.find_nodes(op="placeholder")[POSITIONS + 1 :])
    infinite = any(isinstance(a, float) and math.isinf(a) for a in numbers)
    return infinite or any(dtype.is_floating_point for dtype in read)


def _has_blocks(block_mask: Sequence[Any]) -> bool:
    """Return whether a mask has lists of several blocks."""
    shapes = (x.meta["val"].shape for x in block_mask if isinstance(x, Node) and "val" in x.meta)
    return any(shape[-2:].numel() > 1 for shape in shapes if len(shape) == 4)


def _refused(node: Node, what: str) -> UnsupportedOpError:
    error = UnsupportedOpError(
        f"flex_attention with {what} is not supported; compute what it needs before", place_of(node)
    )
    error.op = "flex_attention"
    return error
