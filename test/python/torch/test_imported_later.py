"""Graphs are imported by another process, while PyTorch computes the results."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import mirage.torch
import pytest
import torch
from mirage.cache import shared_store
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import Cast
from mirage.torch import import_process
from mirage.torch import workshop as workshop_module
from mirage.torch.background import entries_in_memory
from mirage.torch.graph_compiler import backend
from mirage.torch.graph_import import GraphImport, import_graph
from mirage.torch.graph_message import GraphMessage, SentTensor, Settings, likenesses, message_of
from mirage.torch.graph_text import graph_text
from mirage.torch.imported_later import COMMAND, import_later
from mirage.torch.kept_import import kept_import
from mirage.torch.kept_refusals import kept_refusal
from mirage.torch.workshop import Job, Workshop
from stub_workshop import Gate, settled, stub, until
from torch.amp import autocast_mode
from torch.fx import GraphModule
from torch.fx.node import map_aggregate
from torch_programs.op_by_op import op_by_op

OPTIONS: dict[str, Any] = {"chip": "sm_90a"}
X = torch.randn(4, 6)


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MIRAGE_FRESH", raising=False)
    monkeypatch.setenv("MIRAGE_CACHE_DIR", str(tmp_path / "cache"))
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]


class Model(torch.nn.Module):
    """Views, a constant, numbers in nested arguments, an op that no kernel computes."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(6, 6))

    def forward(self, x: torch.Tensor) -> Any:
        scale = torch.tensor([1.0, 2.0, 4.0, 8.0])[:, None]
        y = torch.nn.functional.layer_norm(x @ self.weight, (6,)) * scale
        y = torch.cat([y, x.to(torch.float16).float()], dim=-1)
        return y.t(), torch.special.i0(y)[1:, ::2], x.t(), {"sum": y.sum()}


def swapped(program: Any, options: Mapping[str, Any]) -> Any:
    """In place of kernels: the program op by op, regardless of the result."""
    return op_by_op(program, options)


def host(importer: Workshop, **more: Any) -> Any:
    return partial(
        backend, devices=("cpu",), workshop=stub(), importer=importer, load=swapped,
        options={**OPTIONS, **more.pop("options", {})}, **more,
    )  # fmt: skip


def here(what: str = "") -> Workshop:
    """A process that imports after another action."""
    code = f"{what}\nimport runpy; runpy.run_module({COMMAND[2]!r}, run_name='__main__')"
    return Workshop(1, (sys.executable, "-c", code))


def captured(function: Any) -> tuple[GraphModule, list[Any]]:
    """The graph that TorchDynamo hands over, and its inputs."""
    found: list[tuple[GraphModule, list[Any]]] = []

    def capture(module: GraphModule, inputs: list[Any], **_: Any) -> Any:
        found.append((module, inputs))
        return module.forward

    with torch.no_grad():
        torch.compile(function, backend=capture)(X)
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
    (one,) = found
    return one


def sent(module: GraphModule, inputs: list[Any]) -> GraphMessage:
    message = message_of(module, inputs, graph_text(module, inputs))
    assert message is not None
    return message


# ---- end to end


def test_the_first_call_does_not_wait_for_the_import(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    graphs: list[Any] = []
    model = Model().requires_grad_(False)
    fast = torch.compile(model, backend=host(here(gate.code), watch=graphs.append))
    want = model(X)
    torch.testing.assert_close(fast(X), want)
    (graph,) = graphs
    assert graph.job is not None
    until(lambda: graph.job.doing == "is imported")
    assert "PyTorch answers, being compiled" in str(mirage.torch.explain())
    assert graph.calls == ()
    gate.open()
    until(lambda: graph.compiled is not None or graph.reason)
    assert not graph.reason
    assert graph.calls == ("aten.i0",)
    got = fast(X)
    torch.testing.assert_close(got, want)
    assert [y.stride() for y in got[:3]] == [y.stride() for y in want[:3]]
    assert got[2].untyped_storage().data_ptr() == X.untyped_storage().data_ptr()


def test_a_later_start_needs_no_process() -> None:
    message = sent(*captured(lambda x: torch.exp(x) * 2))
    assert import_process.answer({"graph": message, "kept": True}, None)["entries"]
    graphs: list[Any] = []
    none = Workshop(1, ("/bin/false",))
    fast = torch.compile(lambda x: torch.exp(x) * 2, backend=host(none, watch=graphs.append))
    torch.testing.assert_close(fast(X), torch.exp(X) * 2)
    settled(graphs[0])
    assert not none._workers
    assert not graphs[0].reason


def test_a_process_that_is_killed_leaves_the_graph_to_pytorch(
    caplog: pytest.LogCaptureFixture,
) -> None:
    graphs: list[Any] = []
    killed = stub("os.kill(os.getpid(), signal.SIGKILL)")
    with caplog.at_level(logging.WARNING, logger="mirage.torch"):
        fast = torch.compile(torch.exp, backend=host(killed, watch=graphs.append))
        torch.testing.assert_close(fast(X), torch.exp(X))
        until(lambda: graphs[0].reason)
        torch.testing.assert_close(fast(X), torch.exp(X))
    assert "stays with PyTorch: the compile process ended (signal 9)" in caplog.text
    assert caplog.text.count("\n") == 1


def test_what_cannot_be_handed_over_is_imported_here() -> None:
    """The process answers without an entry if it would import another program."""
    graphs: list[Any] = []
    fast = torch.compile(torch.exp, backend=host(stub(), watch=graphs.append))
    torch.testing.assert_close(fast(X), torch.exp(X))
    until(lambda: graphs[0].job is None)
    assert graphs[0].compiled is None
    torch.testing.assert_close(fast(X), torch.exp(X))  # imports it
    settled(graphs[0])
    assert not graphs[0].reason
    torch.testing.assert_close(fast(X), torch.exp(X))


def test_without_a_cache_it_is_imported_by_the_process_each_time() -> None:
    message = sent(*captured(torch.exp))
    answered = import_process.answer({"graph": message, "kept": False}, None)
    assert [kind for kind, _ in answered["entries"]] == ["import"]
    assert not list(shared_store().entries())


def test_blocking_imports_at_once() -> None:
    none = Workshop(1, ("/bin/false",))
    options = {"blocking": True}
    graphs: list[Any] = []
    torch.compile(torch.exp, backend=host(none, options=options, watch=graphs.append))(X)
    assert not none._workers
    assert graphs[0].compiled is not None or graphs[0].reason


# ---- graphs of a GPU


def on_gpu(message: GraphMessage) -> GraphMessage:
    """Return the message of a graph as if all of its tensors were on a GPU."""
    names: dict[Any, Any] = {"cpu": "cuda", torch.device("cpu"): torch.device("cuda:0")}

    def moved(x: Any) -> Any:
        return names.get(x, x) if isinstance(x, str | torch.device) else x

    text = message.text.replace("<cpu>", "<cuda:0>").replace("'cpu'", "'cuda'")
    nodes = [
        replace(n, args=map_aggregate(n.args, moved), kwargs=map_aggregate(n.kwargs, moved))
        for n in message.nodes
    ]
    return replace(
        message,
        text=text.replace(") cpu", ") cuda"),
        nodes=tuple(nodes),
        held=tuple((path, replace(x, device="cuda:0")) for path, x in message.held),
        inputs=tuple(
            replace(x, device="cuda:0") if isinstance(x, SentTensor) else x for x in message.inputs
        ),
    )


def imported_there(message: GraphMessage, module: GraphModule) -> GraphImport | None:
    """Return what this process makes of the other process's answer; None if the graph is to be
    imported here."""
    answered = import_process.answer({"graph": message, "kept": False}, None)
    with entries_in_memory(answered["entries"]):
        return kept_import(message.text, module, message.graph()[1], [])


def that_holds(*nodes: Any) -> GraphModule:
    """A graph of a tensor ``x`` and of ``weight``, which it holds."""
    graph = torch.fx.Graph()
    known: dict[str, Any] = {"x": graph.placeholder("x"), "weight": graph.get_attr("weight")}
    last: Any = None
    for number, (function, operands, *named) in enumerate(nodes):
        given = tuple(known.get(x, x) if isinstance(x, str) else x for x in operands)
        last = known[f"n{number}"] = graph.call_function(function, given, *named)
    graph.output((last,))
    return GraphModule({"weight": torch.randn(6, 4)}, graph)


def same_as_here(found: GraphImport | None, module: GraphModule) -> None:
    mine = import_graph(module, [X])
    assert found is not None
    assert found.program is not None
    assert mine.program is not None
    assert any(p.data is module.weight for p in found.program.parameters)
    (got,), (want,) = (op_by_op(p, {})(X) for p in (found.program, mine.program))
    assert got.dtype == want.dtype
    torch.testing.assert_close(got, want, rtol=0, atol=0)


def test_tensors_that_a_graph_holds_on_a_gpu() -> None:
    module = that_holds((torch.matmul, ("x", "weight")))
    message = on_gpu(sent(module, [X]))
    assert message.homes == {"weight": torch.device("cuda:0")}
    same_as_here(imported_there(message, module), module)


@pytest.mark.parametrize("dtype", [torch.bfloat16, None])
def test_regions_of_a_gpu(dtype: torch.dtype | None, recwarn: pytest.WarningsRecorder) -> None:
    """Casts are those of the GPU, which this process need not have."""
    module = that_holds(
        (autocast_mode._enter_autocast, ("cpu", dtype, True, None)),
        (torch.matmul, ("x", "weight")),
        (torch.tensor, ([1.0, 2.0, 4.0, 8.0],), {"device": torch.device("cpu")}),
        (torch.mul, ("n1", "n2")),
        (autocast_mode._exit_autocast, ("n0",)),
        (torch.neg, ("n3",)),
    )
    message = on_gpu(sent(module, [X]))
    found = imported_there(message, module)
    assert found is not None
    assert found.program is not None
    assert [str(w.message) for w in recwarn.list] == []
    if dtype is None:  # the types that PyTorch chooses differ
        (y,) = op_by_op(found.program, {})(X)
        assert y.dtype == torch.float32
        casts = [op for op in found.program.graph.ops if isinstance(op, Cast)]
        assert {op.result.type.dtype for op in casts} == {DType.F16}
    else:
        same_as_here(found, module)
    assert not torch.is_autocast_enabled("cuda")


def test_what_needs_a_gpu_is_imported_where_it_is() -> None:
    """PyTorch has no casts for tensors on different devices."""
    module = that_holds(
        (autocast_mode._enter_autocast, ("cpu", None, True, None)),
        (torch.matmul, ("x", "weight")),
        (autocast_mode._exit_autocast, ("n0",)),
        (torch.neg, ("n1",)),
    )
    message = on_gpu(sent(module, [X]))
    held = tuple((path, replace(x, device="cuda:1")) for path, x in message.held)
    assert imported_there(replace(message, held=held), module) is None


# ---- the message


def test_the_process_imports_the_same_program() -> None:
    module, inputs = captured(Model())
    text = graph_text(module, inputs)
    message = message_of(module, inputs, text)
    assert message is not None
    answered = import_process.answer({"graph": message, "kept": False}, None)
    shared_store().memory.update(answered["entries"])
    found = kept_import(text, module, likenesses(inputs))
    mine = import_graph(module, inputs)
    assert found is not None
    assert found.effects == mine.effects
    assert found.calls == mine.calls
    assert found.program is not None
    assert mine.program is not None
    want = op_by_op(mine.program, {})(*inputs)
    torch.testing.assert_close(op_by_op(found.program, {})(*inputs), want)


def test_tensors_of_a_gpu_have_their_device_there() -> None:
    """The process sees no GPU, and none is needed for tensors without elements."""
    module, inputs = captured(lambda x: torch.arange(4.0, device=x.device) + x.sum(1))
    message = sent(module, inputs)
    (x,) = message.inputs
    assert isinstance(x, SentTensor)
    for node in module.graph.nodes:
        node.kwargs = {
            k: torch.device("cuda:0") if k == "device" else v for k, v in node.kwargs.items()
        }
    there = replace(sent(module, inputs), inputs=(replace(x, device="cuda:0"),))
    again, (fake,) = there.graph()
    assert str(fake.device) == "cuda:0"
    found = import_graph(again, [fake], moved=False, effects=there.effects)
    assert found.effects is there.effects
    assert found.program is not None
    assert not found.calls


def test_settings_are_those_of_the_sender() -> None:
    message = sent(*captured(torch.exp))
    before = Settings.current()
    torch.set_float32_matmul_precision("high")
    try:
        other, _ = message.graph()
        assert not message.is_told_by(other)
        with message.settings.applied():
            assert message.is_told_by(other)
        assert Settings.current() == before
    finally:
        torch.set_float32_matmul_precision(before.precision)


def test_another_graph_is_not_told_by_the_message() -> None:
    message = sent(*captured(torch.exp))
    assert message.is_told_by(captured(torch.exp)[0])
    assert not message.is_told_by(captured(torch.sin)[0])


def test_nothing_is_sent_that_is_made_on_a_gpu_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    module, inputs = captured(torch.exp)
    monkeypatch.setattr(torch, "get_default_device", lambda: torch.device("cuda"))
    assert import_later(module, inputs, "", True, lambda _: None, lambda *_: None, stub()) is None


def test_errors_are_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError("cannot be\nimported")

    message = sent(*captured(torch.exp))
    monkeypatch.setattr(import_process, "import_graph", fails)
    entries = import_process.answer({"graph": message, "kept": True}, None)["entries"]
    with entries_in_memory(entries):
        refusal = kept_refusal(message.text)
    assert refusal is not None
    assert refusal.reason == "RuntimeError: cannot be"
    monkeypatch.setattr(GraphMessage, "graph", fails)
    answered = import_process.answer({"graph": message, "kept": True}, None)
    assert answered == {"error": "RuntimeError: cannot be"}


def test_warnings_of_processes_are_repeated_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as errors in writing to the cache, which only the writing process sees."""
    monkeypatch.setattr(workshop_module, "_told", set())
    said = [("mirage.cache", "the cache cannot be written")]
    warning = f"c.write_message(answers, {{'entries': {{}}, 'said': {said!r}}}); continue"
    workshop = stub(warning)
    jobs = [workshop.submit(Job({}, lambda _: None)) for _ in range(2)]
    with caplog.at_level(logging.WARNING, logger="mirage.cache"):
        until(lambda: all(job.finished.is_set() for job in jobs))
    assert caplog.text.count("the cache cannot be written") == 1
