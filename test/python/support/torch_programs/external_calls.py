"""Single calls that remain with PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mirage.pipeline.make_plan import call_of
from mirage.runtime.dispatch.torch_calls import TorchCall
from mirage.semantics.ugraph import External, Value


def call_external(op: External, values: Mapping[Value, Any]) -> tuple[Any, ...]:
    """Call the torch op that ``op`` stands for."""
    return TorchCall(call_of(op))([values[v] for v in op.operands])
