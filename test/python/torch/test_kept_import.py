"""A second start does not import graphs again. Everything that an import depends on is in the text
that is its key, and a graph whose meaning the text does not determine is never looked up."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
import torch
from mirage.cache import kind_version, shared_store
from mirage.pipeline.kept_program import key_for
from mirage.pipeline.options import OptimizeOptions
from mirage.semantics.ugraph import Matmul
from mirage.torch import import_once, kept_import
from mirage.torch.compiled_graph import CompiledGraph
from mirage.torch.graph_compiler import backend
from mirage.torch.graph_text import NoTextError, function_name, graph_text
from torch.fx import GraphModule, symbolic_trace
from torch_programs.op_by_op import op_by_op

X = torch.arange(24.0).reshape(4, 6)


def compiled(module: GraphModule) -> CompiledGraph:
    return CompiledGraph(module, [X], import_once.import_once(module, [X]))


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MIRAGE_FRESH", raising=False)
    monkeypatch.setenv("MIRAGE_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def imports(monkeypatch: pytest.MonkeyPatch) -> list[GraphModule]:
    """The graphs that are imported, rather than taken from an earlier run."""
    made: list[GraphModule] = []
    real = import_once.import_graph

    def counted(module: GraphModule, inputs: Any) -> Any:
        made.append(module)
        return real(module, inputs)

    monkeypatch.setattr(import_once, "import_graph", counted)
    return made


class Holding(torch.nn.Module):
    """A module with a parameter, and tensors that are constants."""

    mask: torch.Tensor

    def __init__(self, number: float = 2.0, shift: float = 1.0) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((6,), number), requires_grad=False)
        self.register_buffer("mask", torch.arange(6) < 3, persistent=False)
        self.shift = torch.full((6,), shift)

    def forward(self, x: torch.Tensor) -> Any:
        kept = torch.where(self.mask, x * self.weight, 0.0) + self.shift * 2
        return kept.t(), x[1:], kept.sum(-1)


def started(function: Callable[..., Any], *inputs: Any, **options: Any) -> Any:
    """The results of a start under TorchDynamo."""
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
    host = partial(backend, compiler=op_by_op, devices=("cpu",), options=options)
    with torch.no_grad():
        return torch.compile(function, backend=host)(*inputs)


def exponential(x: torch.Tensor) -> torch.Tensor:
    return torch.exp(x)


def text(function: Any, *inputs: Any) -> str:
    return graph_text(symbolic_trace(function), inputs or (X,))


# ---- a second start


def test_a_second_start_imports_nothing(imports: list[GraphModule]) -> None:
    model = Holding()
    want = model(X)
    for count in (1, 1):
        got = started(model, X)
        assert len(imports) == count
        for y, expected in zip(got, want, strict=True):
            torch.testing.assert_close(y, expected)
            assert y.stride() == expected.stride()
        assert got[1].data_ptr() == X[1:].data_ptr()


def test_what_is_read_is_what_was_kept(imports: list[GraphModule]) -> None:
    module = symbolic_trace(Holding())
    first, second = (compiled(module) for _ in range(2))
    assert len(imports) == 1
    assert first.program is not None
    assert second.program is not None
    options = OptimizeOptions.of(chip="sm_90a")
    assert key_for(first.program, options) == key_for(second.program, options)
    assert [v.name for v in first.program.graph.inputs] == [
        v.name for v in second.program.graph.inputs
    ]
    assert first.arranged.layouts == second.arranged.layouts
    for a, b in zip(first.program.parameters, second.program.parameters, strict=True):
        assert (a.index, a.name, a.trained) == (b.index, b.name, b.trained)
        assert isinstance(a.data, torch.Tensor)
        assert isinstance(b.data, torch.Tensor)
        assert torch.equal(a.data, b.data)
        assert (a.data is module.weight) == (b.data is module.weight) == a.trained


def test_inputs_that_are_written_to(imports: list[GraphModule]) -> None:
    def update(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y * 2)
        return x * y

    for _ in range(2):
        mine, theirs = X.clone(), X.clone()
        torch.testing.assert_close(started(update, mine, X), update(theirs, X))
        assert torch.equal(mine, theirs)
    assert len(imports) == 1


def test_names_of_values_do_not_matter() -> None:
    def f(x: Any) -> Any:
        doubled = x * 2
        return doubled + x

    def g(y: Any) -> Any:
        z = y * 2
        return z + y

    assert text(f) == text(g)


@pytest.mark.parametrize("options", [{"use_cache": False}, {"fresh": True}])
def test_options_that_leave_the_cache_alone(
    options: dict[str, Any], imports: list[GraphModule], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("kept_import", "keep_import"):
        monkeypatch.setattr(import_once, name, lambda *_: pytest.fail("looked it up"))
    started(torch.exp, X, **options)
    assert not list(shared_store().entries())


# ---- changes that require another import


OTHERS: dict[str, tuple[Callable[[], str], Callable[[], str]]] = {
    "an op": (lambda: text(lambda x: x * 2), lambda: text(lambda x: x + 2)),
    "a method": (lambda: text(lambda x: x.exp()), lambda: text(lambda x: x.sin())),
    "a number": (lambda: text(lambda x: x * 2), lambda: text(lambda x: x * 3)),
    "an integer": (lambda: text(lambda x: x * 2), lambda: text(lambda x: x * 2.0)),
    "a truth value": (
        lambda: text(lambda x: x.sum(1, keepdim=True)), lambda: text(lambda x: x.sum(1, keepdim=1)),
    ),
    "a sign of zero": (lambda: text(lambda x: x * 0.0), lambda: text(lambda x: x * -0.0)),
    "an operand": (
        lambda: text(lambda x, y: x - y, X, X), lambda: text(lambda x, y: y - x, X, X),
    ),
    "a result": (
        lambda: text(lambda x: (x + 1, x + 2)), lambda: text(lambda x: (x + 2, x + 1)),
    ),
    "a single result": (lambda: text(lambda x: x + 1), lambda: text(lambda x: (x + 1,))),
    "a type": (
        lambda: text(lambda x: x.to(torch.float16)), lambda: text(lambda x: x.to(torch.bfloat16)),
    ),
    "a slice": (lambda: text(lambda x: x[1:]), lambda: text(lambda x: x[:1])),
    "a shape": (lambda: text(exponential, X), lambda: text(exponential, X[:3])),
    "strides": (lambda: text(exponential, X), lambda: text(exponential, X.t().contiguous().t())),
    "an element type": (lambda: text(exponential, X), lambda: text(exponential, X.half())),
    "a device": (lambda: text(exponential, X), lambda: text(exponential, X.to("meta"))),
    "a size": (lambda: text(lambda x, n: x * n, X, 2), lambda: text(lambda x, n: x * n, X, 3)),
    "a constant": (lambda: text(Holding(shift=1)), lambda: text(Holding(shift=2))),
}  # fmt: skip


@pytest.mark.parametrize("what", OTHERS)
def test_another_graph_has_another_text(what: str) -> None:
    one, other = OTHERS[what]
    assert one() == one()
    assert one() != other()


def test_settings_of_pytorch_are_in_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    before = text(exponential)
    torch.set_default_dtype(torch.float64)
    try:
        assert text(exponential) != before
    finally:
        torch.set_default_dtype(torch.float32)
    assert text(exponential) == before
    monkeypatch.setattr(torch, "__version__", "1.2.3")
    assert text(exponential) != before


def test_an_import_in_another_precision_is_not_taken(imports: list[GraphModule]) -> None:
    """Products of f32 are imported as TF32 only if PyTorch's settings say so."""
    module = symbolic_trace(lambda x: x @ x.t())
    before = torch.get_float32_matmul_precision()
    found: list[bool] = []
    try:
        for precision in ("highest", "high", "highest"):
            torch.set_float32_matmul_precision(precision)
            program = compiled(module).program
            assert program is not None
            found.append(any(op.tf32 for op in program.graph.ops if isinstance(op, Matmul)))
    finally:
        torch.set_float32_matmul_precision(before)
    assert found == [False, True, False]
    assert len(imports) == 2


def test_another_version_of_the_importer_is_another_key(
    imports: list[GraphModule], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = symbolic_trace(exponential)
    compiled(module)
    monkeypatch.setattr(kept_import, "kind_version", lambda kind: "changed")
    compiled(module)
    assert len(imports) == 2


# ---- graphs without a text


def own(x: torch.Tensor) -> torch.Tensor:
    return x * 2


torch.fx.wrap("own")


@torch.library.custom_op("kept_import_test::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


twice.register_fake(torch.empty_like)


class Tagged(torch.Tensor):
    pass


@pytest.mark.parametrize(
    ("function", "inputs", "message"),
    [
        (lambda x: own(x), (X,), "is not found by its name"),
        (lambda x: torch.ops.kept_import_test.twice(x), (X,), "not an op of PyTorch's own"),
        (exponential, (X.as_subclass(Tagged),), "an input is a Tagged"),
        (exponential, (X.to_sparse(),), "not just elements at strides"),
        (exponential, (torch.complex(X, X).conj(),), "not just elements at strides"),
        (torch.nn.Sequential(torch.nn.Linear(6, 6)), (X,), "a node is a call_module"),
    ],
)
def test_what_a_text_cannot_tell(function: Any, inputs: Any, message: str) -> None:
    with pytest.raises(NoTextError, match=message):
        graph_text(symbolic_trace(function), inputs)


def test_a_function_of_the_same_name_is_not_taken_for_pytorchs() -> None:
    def exp(x: torch.Tensor) -> torch.Tensor:
        return x

    exp.__module__, exp.__qualname__ = "torch", "exp"
    assert function_name(torch.exp) == "torch:exp"
    with pytest.raises(NoTextError):
        function_name(exp)


def test_an_importer_of_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", unknown)
    with pytest.raises(NoTextError, match="torch-mlir is not known"):
        text(exponential)


def test_tensors_that_are_large_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    from mirage.torch import graph_text as module

    monkeypatch.setattr(module, "LARGEST", 40)
    with pytest.raises(NoTextError, match="more than 40 bytes"):
        text(Holding())


def test_a_graph_without_a_text_is_imported_each_time(imports: list[GraphModule]) -> None:
    for _ in range(2):
        torch.testing.assert_close(started(lambda x: twice(x) + 1, X), X * 2 + 1)
    assert len(imports) == 2
    assert not list(shared_store().entries())


# ---- invalid entries


def _of_another_graph(data: dict[str, Any]) -> None:
    data["text"] += " "


def _of_another_shape(data: dict[str, Any]) -> None:
    data["program"]["graph"]["text"] = data["program"]["graph"]["text"].replace("4x6", "4x7")


def _without_a_field(data: dict[str, Any]) -> None:
    del data["written"]


def _of_no_type(data: dict[str, Any]) -> None:
    data["results"][0]["dtype"] = "exp"


def _of_a_path_that_is_not_there(data: dict[str, Any]) -> None:
    for tensor in data["program"]["tensors"]:
        tensor["path"] = "nowhere"


@pytest.mark.parametrize(
    "change",
    [_of_another_graph, _of_another_shape, _without_a_field, _of_no_type,
     _of_a_path_that_is_not_there],
)  # fmt: skip
def test_an_entry_that_is_not_right_is_made_again(
    change: Callable[[dict[str, Any]], None], imports: list[GraphModule],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    module = symbolic_trace(Holding())
    compiled(module)
    store = shared_store()
    (entry,) = store.entries()
    data = json.loads(store.get("import", entry.key) or b"")
    change(data)
    store.put("import", entry.key, json.dumps(data).encode(), version=kind_version("import"))
    for count in (2, 2):
        compiled(module)
        assert len(imports) == count
    assert len([r for r in caplog.records if r.levelno >= logging.WARNING]) == 1
    assert "an entry of the cache is damaged (import" in caplog.text
