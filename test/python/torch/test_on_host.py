"""Graphs of a GPU are imported as graphs of the host: devices and tensors of the GPU are restored
once they are compiled. Tensors on the GPU are fake."""

from __future__ import annotations

from typing import Any

import torch
from mirage.frontend.program import Parameter, Program
from mirage.semantics.ugraph import KernelGraph
from mirage.torch.compiled_graph import CompiledGraph
from mirage.torch.graph_import import import_graph
from mirage.torch.on_host import OnHost
from torch._subclasses.fake_tensor import FakeTensorMode

CUDA = torch.device("cuda", 0)


def graph_of(*calls: Any) -> torch.fx.GraphModule:
    """A graph that passes ``x`` through calls, each given by a kind, a target, further arguments,
    and named ones."""
    graph = torch.fx.Graph()
    y = graph.placeholder("x")
    for kind, target, args, named in calls:
        y = getattr(graph, kind)(target, (y, *args), named)
    graph.output((y,))
    return torch.fx.GraphModule({}, graph)


def compiled(module: torch.fx.GraphModule) -> CompiledGraph:
    with FakeTensorMode():
        x = torch.empty(4, device=CUDA)
    return CompiledGraph(module, [x], import_graph(module, [x]))


def test_devices_that_are_named() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    line = graph.call_function(torch.arange, (4,), {"device": CUDA})
    line = graph.call_method("to", (line, "cuda:0"))
    y = graph.call_function(torch.add, (x, line))
    graph.output((graph.call_method("to", (y,), {"device": CUDA, "dtype": torch.float16}),))
    found = compiled(torch.fx.GraphModule({}, graph))
    assert found.program is not None
    assert not found.report.calls
    assert [v.dtype.value for v in found.program.graph.outputs] == ["f16"]


def test_methods_that_name_it() -> None:
    module = graph_of(("call_method", "cuda", (0,), {}), ("call_function", torch.exp, (), {}))
    there, x = OnHost(module, CUDA).module, torch.empty(4)
    found = CompiledGraph(there, [x], import_graph(there, [x]))
    assert found.program is not None
    assert [type(op).__name__ for op in found.program.graph.ops] == ["Unary"]


def test_other_words_stay() -> None:
    module = graph_of(("call_function", torch.div, (3.0,), {"rounding_mode": "floor"}))
    assert [n.kwargs for n in OnHost(module, CUDA).module.graph.nodes if n.kwargs] == [
        {"rounding_mode": "floor"}
    ]


def test_tensors_that_it_holds() -> None:
    with FakeTensorMode():
        weight = torch.nn.Parameter(torch.zeros(4, device=CUDA), requires_grad=False)
        table = torch.zeros(2, device=CUDA)
        made = torch.zeros(3)
        root = torch.nn.Module()
        root.inner = torch.nn.Module()
        root.inner.weight, root.table = weight, table
        graph = torch.fx.Graph()
        graph.output((graph.get_attr("inner.weight"), graph.get_attr("table")))
        module = torch.fx.GraphModule(root, graph)
        host = OnHost(module, CUDA)
        copies = [module.get_parameter("inner.weight"), module.table]
        assert [x.device.type for x in copies] == ["cpu", "cpu"]
        held = (*copies, made)
        parameters = tuple(Parameter(i, str(i), x) for i, x in enumerate(held))
        program = host.on_device(Program(KernelGraph("g", (), (), ()), parameters=parameters))
        first, second, third = (p.data for p in program.parameters)
        assert first is weight
        assert second is table
        assert isinstance(third, torch.Tensor)
        assert third.device == CUDA


def test_on_the_host_nothing_changes() -> None:
    module = graph_of(("call_function", torch.exp, (), {}))
    x = torch.zeros(4)
    host = OnHost(module, x.device)
    program = Program(KernelGraph("g", (), (), ()), parameters=(Parameter(0, "x", x),))
    assert host.on_device(program).parameters[0].data is x
