"""Encoders on a GPU: errors against float32, and times compared with PyTorch's."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from encoder_models import Encoder, PlainEncoder, argument, random_weights
from measured_models import ALLOWED, OURS, PEERS, Bench, Peer, Row, compiled
from mirage.runtime import load

ONCE = tuple(p for p in PEERS if p.attention == "full")
"""The peers of encoders, which have no forms of attention to a cache."""


def measured(bench: Bench, folder: Path, encoder: Encoder) -> Row:
    """Return the row of an encoder: the time of loading, errors, and times. Raises the errors of
    loading and of calls."""
    with torch.no_grad(), bench.turns.prepares():
        weights = random_weights(encoder, "cuda", torch.bfloat16)
        begin = time.perf_counter()
        model = load(folder, state={f"model.{name}": x for name, x in weights.items()})
        torch.cuda.synchronize()
        row: Row = {"load": time.perf_counter() - begin}
        x = argument(encoder, "cuda", torch.bfloat16)
        plain = PlainEncoder(encoder, weights)
        exact = PlainEncoder(encoder, weights, torch.float32)(x)
        found = {name: error(exact, call(x)) for name, call in ((OURS, model), ("eager", plain))}
        row["errors"] = {name: {"hidden": e} for name, e in found.items()}
        row["correct"] = found[OURS] <= ALLOWED * found["eager"]
        del exact
    with torch.no_grad():
        peers = [p for p in bench.peers if p in ONCE]

        def prepare(peer: Peer) -> Callable[[int], Any]:
            return compiled(plain, peer.mode, (x,))

        bench.time(row, model, (x,), peers, prepare)
    return row


def error(exact: torch.Tensor, got: torch.Tensor) -> float:
    """Return the relative L2 error."""
    apart = ((got.float() - exact).norm() / exact.norm()).item()
    return float("inf") if apart != apart else apart
