"""Models with regions of autocast: the compiled program has the same types as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from mirage.semantics.scalar import DType
from mirage.torch.autocast import with_explicit_casts
from mirage.torch.compiled_graph import Report
from mirage.torch.graph_compiler import backend
from mirage.torch.graph_import import import_graph
from thorough import some_of
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.amp import autocast_mode
from torch_programs.op_by_op import op_by_op

reports: list[Report] = []
host = partial(backend, compiler=op_by_op, devices=("cpu",), watch=reports.append)
W = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def fresh() -> None:
    reports.clear()
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.proj = torch.nn.Linear(6, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.proj(x)
        return y.float() * 2


def kept_wide(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A nested region without autocast, and one that is switched off."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ W
        with torch.autocast("cpu", enabled=False):
            z = y.float() @ W.t()
    with torch.autocast("cpu", enabled=False):
        return y, z + x


def attention(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        q = (x @ W).reshape(1, 1, -1, 8)
        return F.scaled_dot_product_attention(q, q, q)


def written(x: torch.Tensor) -> torch.Tensor:
    held = x.clone()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        held.add_((x @ W).sum())
    return held


PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "a layer": Layer().requires_grad_(False),
    "regions in regions": kept_wide,
    "attention": attention,
    "a store": written,
}


@pytest.mark.parametrize("name", some_of(PROGRAMS, every=2))
def test_a_region_is_compiled(name: str) -> None:
    function, x = PROGRAMS[name], torch.randn(4, 6, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        got, want = torch.compile(function, backend=host)(x), function(x)
    torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-2)  # types as well
    (report,) = reports
    assert not report.reason
    assert report.compiled is not None
    assert not report.calls


def test_autocast_for_other_devices_casts_nothing() -> None:
    """It is on for the host, and the graph is on a GPU; it is imported on the host."""
    graph = torch.fx.Graph()
    x, w = graph.placeholder("x"), graph.placeholder("w")
    graph.output((graph.call_function(torch.matmul, (x, w)),))
    with FakeTensorMode():
        inputs = [torch.empty(4, 6, device="cuda"), torch.empty(6, 8, device="cuda")]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = import_graph(torch.fx.GraphModule({}, graph), inputs)
    assert found.program is not None
    assert {v.type.dtype for op in found.program.graph.ops for v in op.results} == {DType.F32}


def test_a_literal_is_made_on_no_device_that_is_not_there() -> None:
    graph = torch.fx.Graph()
    x, device = graph.placeholder("x"), torch.device("cuda")
    region = graph.call_function(autocast_mode._enter_autocast, ("cuda", None, True, None))
    literal = graph.call_function(torch.tensor, ([1.0, 2.0],), {"device": device})
    y = graph.call_function(torch.mul, (x, literal))
    graph.call_function(autocast_mode._exit_autocast, (region,))
    graph.output((y,))
    with FakeTensorMode():
        x = torch.empty(3, 2, device="cuda")
    plain = with_explicit_casts(torch.fx.GraphModule({}, graph), [x], {})
    (held,) = plain.graph.find_nodes(op="get_attr")
    torch.testing.assert_close(getattr(plain, held.target), torch.tensor([1.0, 2.0]))
    assert [n.target for n in plain.graph.nodes if n.op == "call_function"] == [
        torch.ops.aten.mul.Tensor
    ]
