"""The result of ``torch.compile(backend="mirage")`` for a model, without a search: which ops remain
with PyTorch, and whether the imported program computes the same as PyTorch.
"""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from mirage.frontend.program import Program
from mirage.semantics.ugraph import External
from mirage.torch.compiled_graph import Compiler, Report
from mirage.torch.graph_compiler import backend
from mirage.transforms.partition.partition import Part, partition
from torch_programs.op_by_op import op_by_op

from whole_models.catalog import LENGTH, VOCABULARY, Model

BATCH = 2
TOKENS = 65
"""The number of greedy tokens: one from the prompt, the others from decoding steps."""
ALLOWED = frozenset({"convolution"})
"""Ops that may stay with PyTorch in a whole model."""

Row = dict[str, Any]


@dataclass
class _Recorder:
    """Compiles by ``make``, and keeps its reports; a call that fails does not silently return to
    PyTorch. A model that generates gives this number of ``tokens``."""

    make: Compiler
    tokens: int
    reports: list[Report] = field(default_factory=list[Report])
    programs: list[Program] = field(default_factory=list[Program])
    failures: list[str] = field(default_factory=list[str])
    phases: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """For each call of the model, the graphs that were made in it."""

    def compiler(self, program: Program, options: Mapping[str, Any]) -> Any:
        self.programs.append(program)
        run = self.make(program, options)

        def call(*tensors: torch.Tensor) -> Any:
            try:
                return run(*tensors)
            except Exception as error:
                self.failures.append(f"{type(error).__name__}: {error}".splitlines()[0])
                raise

        return call

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        fast = torch.compile(
            function,
            backend=partial(
                backend, compiler=self.compiler, devices=("cpu",), watch=self.reports.append
            ),
        )

        @functools.wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            start = len(self.reports)
            result = fast(*args, **named)
            self.phases.append((start, len(self.reports)))
            return result

        return call


def measured(given: Model, compiler: Compiler = op_by_op, tokens: int = TOKENS) -> Row:
    """Return the row of a model whose graphs are compiled by ``compiler``. Raises the errors of
    building and of running it. Without ``tokens``, nothing is generated: then only models with an
    encoder and a decoder have results."""
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
    module = given.build()
    start = time.perf_counter()
    recorder = _Recorder(compiler, tokens)
    with torch.no_grad():
        outcome = _USES[given.use](module, recorder)
    found = _phases(recorder)
    row: Row = {"model": given.name, **outcome, "seconds": time.perf_counter() - start}
    row["phases"] = found
    row["failures"] = list(dict.fromkeys(recorder.failures))
    return row


def whole(row: Row) -> bool:
    """Return whether each call is one graph, of which only permitted ops stay with PyTorch."""
    return not row["failures"] and all(
        not p["eager"] and p["graphs"] == 1 and not set(p["stays"]) - ALLOWED
        for p in row["phases"].values()
    )


def right(row: Row) -> bool:
    """Return whether the results are those of PyTorch."""
    return not row["failures"] and row["error"] <= 1e-4 and row.get("tokens_equal", True)


def _phases(recorder: _Recorder) -> dict[str, Row]:
    """Return the graphs of the first call, and those that later calls made, unless they are like
    those of an earlier call (while a window fills up, there is a new graph at each token)."""
    found: dict[str, Row] = {}
    programs = iter(recorder.programs)
    for number, (start, stop) in enumerate(recorder.phases):
        if start == stop:
            continue
        reports = recorder.reports[start:stop]
        own = [next(programs) for r in reports if r.compiled is not None]
        phase = _phase(reports, own)
        if phase not in found.values():
            found[f"call {number + 1}"] = phase
    return found


def _phase(reports: list[Report], programs: list[Program]) -> Row:
    steps = [s for p in programs for s in partition(p.graph)]
    calls = [s.target for s in steps if isinstance(s, External)]
    outside = Counter(map(_short, calls))
    stays = Counter(_short(c) for r in reports for c in r.calls)
    reasons = {_short(c): why for r in reports for c, why in zip(r.calls, r.reasons, strict=True)}
    return {
        "graphs": len(reports),
        "ops": sum(r.ops for r in reports),
        "imported": sum(len(p.graph.ops) for p in programs),
        "stays": dict(stays.most_common()),
        "why": reasons,
        "eager": [r.reason for r in reports if r.reason],
        "parts": sum(isinstance(s, Part) for s in steps),
        "calls": dict(outside.most_common()),
    }


def _short(target: str) -> str:
    return target.removeprefix("aten.").removesuffix(".default")


# ---- uses


def _ids(rows: int = BATCH, length: int = LENGTH) -> torch.Tensor:
    return torch.randint(3, VOCABULARY, (rows, length))


def _tensors(result: Any) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    items = result.values() if isinstance(result, Mapping) else result
    if not isinstance(result, Mapping | list | tuple):
        return []
    return [x for item in items for x in _tensors(item)]


def _difference(got: Any, expected: Any) -> float:
    """Return the largest difference, relative to the largest number."""
    pairs = list(zip(_tensors(got), _tensors(expected), strict=True))
    assert pairs
    largest = 0.0
    for a, b in pairs:
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        a, b = a.double(), b.double()
        same = (a == b) | (a.isnan() & b.isnan())
        apart = torch.where(same, 0.0, (a - b).abs())
        scale = b[b.isfinite()].abs().max().item() if b.isfinite().any() else 1.0
        largest = max(largest, apart.nan_to_num(nan=float("inf")).max().item() / max(scale, 1e-30))
    return largest


def _once(**inputs: Any) -> Callable[[Any, _Recorder], Row]:
    def use(module: Any, recorder: _Recorder) -> Row:
        torch.manual_seed(1)
        given = {name: make() for name, make in inputs.items()}
        expected = module(**given)
        got = recorder.compiled(module.forward)(**given)
        return {"error": _difference(got, expected)}

    return use


def _greedy(decoder: bool = False, **inputs: Any) -> Callable[[Any, _Recorder], Row]:
    """Run a prompt and greedy tokens, with a cache of fixed size. For a model with an encoder and a
    ``decoder``, which generation calls separately, both together first."""

    def use(module: Any, recorder: _Recorder) -> Row:
        torch.manual_seed(1)
        given: dict[str, Any] = {name: make() for name, make in inputs.items()}
        both = {**given, "decoder_input_ids": _ids()} if decoder else None
        expected_of_both = None if both is None else module(**both).logits
        given |= {
            "max_new_tokens": recorder.tokens,
            "do_sample": False,
            "disable_compile": True,
            "eos_token_id": None,
            "pad_token_id": 0,
            "output_logits": True,
            "return_dict_in_generate": True,
        }
        if not module._is_stateful:  # such models have separate states
            given["cache_implementation"] = "static"
        expected: Any = module.generate(**given) if recorder.tokens else None
        module.forward = recorder.compiled(module.forward)
        error = 0.0
        if both is not None:
            error = _difference(module(**both).logits, expected_of_both)
        if not recorder.tokens:
            return {"error": error}
        got = module.generate(**given)
        return {
            "error": max(error, _difference(got.logits, expected.logits)),
            "tokens_equal": torch.equal(got.sequences, expected.sequences),
        }

    return use


def _image() -> torch.Tensor:
    return torch.randn(BATCH, 3, 16, 16)


def _ones() -> torch.Tensor:
    return torch.ones(BATCH, LENGTH, dtype=torch.long)


_USES: dict[str, Callable[[Any, _Recorder], Row]] = {
    "decode": _greedy(input_ids=_ids, attention_mask=_ones),
    "pairs": _greedy(True, input_ids=_ids, attention_mask=_ones),
    "speech": _greedy(True, input_features=lambda: torch.randn(BATCH, 8, 32)),
    "tokens": _once(input_ids=_ids, attention_mask=_ones),
    "image": _once(pixel_values=_image),
    "both": _once(input_ids=_ids, pixel_values=_image, attention_mask=_ones),
    "latent": _once(
        hidden_states=lambda: torch.randn(BATCH, 4, 8, 8),
        timestep=lambda: torch.tensor([3, 500]),
        class_labels=lambda: torch.tensor([1, 7]),
    ),
}
