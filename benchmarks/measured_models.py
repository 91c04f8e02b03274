"""Whole models on a GPU: errors against float32, and times compared with PyTorch's."""

from __future__ import annotations

import gc
import platform
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import kept
import timing
import torch
from decoder_models import Decoder, Use, arguments, random_weights
from gpu_turns import Turns
from mirage.runtime import load
from plain_decoder import Attention
from plain_models import plain
from time_limit import Late, at_most

Row = dict[str, Any]
Args = tuple[torch.Tensor, torch.Tensor, list[torch.Tensor], list[torch.Tensor]]
ALLOWED = 2.0
"""The largest permitted ratio of our error against float32 to PyTorch's."""
OURS = "mirage"


@dataclass(frozen=True)
class Peer:
    """PyTorch: the form of attention, and the mode of ``torch.compile``, None for eager."""

    name: str
    attention: Attention
    mode: str | None = None


PEERS = (
    Peer("eager", "masked"),
    Peer("eager full", "full"),
    Peer("compile full", "full", "default"),
    Peer("compile flex", "flex", "default"),
    Peer("compile", "masked", "default"),
    Peer("compile written", "written", "default"),
    Peer("autotune full", "full", "max-autotune-no-cudagraphs"),
    Peer("autotune flex", "flex", "max-autotune-no-cudagraphs"),
    Peer("autotune written", "written", "max-autotune-no-cudagraphs"),
)
"""The peers, in the order in which they are prepared. All are replayed as CUDA graphs that we
capture, like those of "max-autotune": "max-autotune-no-cudagraphs" tunes the same kernels, and
products of one shape are tuned once for all layers."""


class Bench:
    """The settings for all models: ``rounds`` of medians, the time (of ``time.monotonic``) after
    which no measurement begins, the names of ``peers`` (None: all), whether to ``profile`` our
    model and the fastest of them, the seconds within which a peer must be ``prepared`` (0: no
    limit), and the ``turns`` of processes on the same GPU."""

    def __init__(
        self,
        rounds: int,
        until: float,
        peers: Sequence[str] | None,
        profile: bool = False,
        prepared: float = 0.0,
        turns: Turns | None = None,
    ) -> None:
        self.turns = turns or Turns(None)
        self.rounds, self.until, self.profile, self.prepared = rounds, until, profile, prepared
        self.peers = [p for p in PEERS if peers is None or p.name in peers]
        self._weights: tuple[Decoder, dict[str, torch.Tensor]] | None = None

    def measured(self, folder: Path, decoder: Decoder, use: Use) -> Row:
        """Return the row of a model: the time of loading, errors, and times. Raises the errors of
        loading and of calls."""
        with torch.no_grad(), self.turns.prepares():
            weights = self._made(decoder)
            begin = time.perf_counter()
            model = load(folder, state={f"model.{name}": x for name, x in weights.items()})
            torch.cuda.synchronize()
            row: Row = {"load": time.perf_counter() - begin}
            args = arguments(decoder, use, "cuda", torch.bfloat16)
            exact = self.exact(decoder, weights, args)
            eager = plain(decoder, weights)
            row["errors"] = {
                OURS: errors(exact, outcome(model, args)),
                "eager": errors(exact, outcome(eager, args)),
            }
            del exact
            mine, theirs = row["errors"][OURS], row["errors"]["eager"]
            row["correct"] = all(mine[k] <= ALLOWED * theirs[k] + 1e-12 for k in theirs)
        with torch.no_grad():
            self.time(row, model, args, self._chosen(decoder, use),
                      lambda peer: prepared(peer, decoder, weights, args))  # fmt: skip
        return row

    def _made(self, decoder: Decoder) -> dict[str, torch.Tensor]:
        if self._weights is None or self._weights[0] != decoder:
            self._weights = None
            gc.collect()
            torch.cuda.empty_cache()
            self._weights = decoder, random_weights(decoder, "cuda", torch.bfloat16)
        return self._weights[1]

    def exact(self, decoder: Decoder, weights: dict[str, torch.Tensor], args: Args) -> Outcome:
        """Compute in float32, without TF32, one sequence after the other: all caches may not fit
        into memory in float32."""
        ids, positions, *caches = args
        call = plain(decoder, weights, "written", torch.float32)
        found: list[Outcome] = []
        for row in range(ids.shape[0]):
            wide = [[x[row : row + 1].float() for x in xs] for xs in caches]
            logits = call(ids[row : row + 1], positions, *wide)
            found.append(Outcome(logits, *(tuple(x[:, :, positions] for x in xs) for xs in wide)))
        return joined(found)

    def time(
        self,
        row: Row,
        model: Any,
        args: Sequence[Any],
        peers: Iterable[Peer],
        prepare: Callable[[Peer], Callable[[int], Any]],
    ) -> None:
        """Add the times of a model and of its peers, measured in turns, to its row."""
        with self.turns.prepares():
            calls, graphs = self._captured(row, model, args, peers, prepare)
        with self.turns.measures():
            self._timed(row, calls, graphs)

    def _captured(
        self,
        row: Row,
        model: Any,
        args: Sequence[Any],
        peers: Iterable[Peer],
        prepare: Callable[[Peer], Callable[[int], Any]],
    ) -> tuple[dict[str, Callable[[int], Any]], dict[str, torch.cuda.CUDAGraph]]:
        """Return the model and its peers as calls and as CUDA graphs."""
        last: list[torch.Tensor] = []
        calls: dict[str, Callable[[int], Any]] = {OURS: lambda i: last.append(model(*args))}
        expected = model(*args)
        graphs = {OURS: timing.capture(calls[OURS], [0])}
        written = last[-1]
        written.fill_(float("nan"))
        graphs[OURS].replay()
        torch.cuda.synchronize()
        row["replay_equal"] = torch.equal(expected, written)
        calls[OURS] = lambda i: model(*args)
        row["failed"] = {}
        for peer in peers:
            if time.monotonic() > self.until:
                row["failed"][peer.name] = "not prepared: the time was used"
                continue
            begin = time.perf_counter()
            try:
                with at_most(self.prepared):
                    call = prepare(peer)
                graphs[peer.name] = timing.capture(call, [0])
                calls[peer.name] = call
            except (Exception, Late) as error:  # a peer that fails is not a failure of ours
                row["failed"][peer.name] = f"{type(error).__name__}: {error}"[:300]
            print(f"   {peer.name}: {time.perf_counter() - begin:.1f} s", flush=True)
        return calls, graphs

    def _timed(
        self,
        row: Row,
        calls: dict[str, Callable[[int], Any]],
        graphs: dict[str, torch.cuda.CUDAGraph],
    ) -> None:
        """Add times, and profiles, to a row."""
        row["graph"] = {k: asdict(t) for k, t in
                        timing.time_graphs(graphs, 1, self.rounds).items()}  # fmt: skip
        plain = timing.time_plain(calls, max(3, self.rounds // 5), repeats=3)
        row["plain"] = {k: asdict(t) for k, t in plain.items()}
        row["host"] = host_time(calls[OURS])
        if self.profile:
            times = {k: t["median"] for k, t in row["graph"].items() if k != OURS}
            row["profile"] = {
                name: profiled(calls[name]) for name in (OURS, *sorted(times, key=times.get)[:1])
            }
            for name, rows in row["profile"].items():
                print(f"   profile of {name}\n{profile_text(rows)}", flush=True)

    def _chosen(self, decoder: Decoder, use: Use) -> Iterator[Peer]:
        """Return the peers that differ: for a prompt, only FlexAttention is another form."""
        seen: set[tuple[str | None, str]] = set()
        for peer in self.peers:
            form = peer.attention if use.decodes or peer.attention == "flex" else "full"
            if peer.attention in decoder.forms and (peer.mode, form) not in seen:
                seen.add((peer.mode, form))
                yield peer


@dataclass(frozen=True)
class Outcome:
    """The logits, and the keys and values of the new tokens of each layer."""

    logits: torch.Tensor
    keys: tuple[torch.Tensor, ...]
    values: tuple[torch.Tensor, ...]


def joined(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the outcome of several sequences together."""

    def layers(each: Iterable[tuple[torch.Tensor, ...]]) -> tuple[torch.Tensor, ...]:
        return tuple(torch.cat(xs) for xs in zip(*each, strict=True))

    logits = torch.cat([one.logits for one in outcomes])
    keys, values = layers(one.keys for one in outcomes), layers(one.values for one in outcomes)
    return Outcome(logits, keys, values)


def outcome(call: Callable[..., torch.Tensor], args: Args) -> Outcome:
    """Return the outcome of a call, after which the caches are as before: there may be no room for
    copies of them."""
    ids, positions, *caches = args
    before = [[x[:, :, positions] for x in xs] for xs in caches]
    logits = call(ids, positions, *caches)
    found = Outcome(logits, *(tuple(x[:, :, positions] for x in xs) for xs in caches))
    for xs, olds in zip(caches, before, strict=True):
        for x, old in zip(xs, olds, strict=True):
            x[:, :, positions] = old
    return found


def errors(exact: Outcome, got: Outcome) -> dict[str, float]:
    """Return relative L2 errors, the largest of all layers."""

    def apart(xs: Sequence[torch.Tensor], ys: Sequence[torch.Tensor]) -> float:
        found = [
            ((x.float() - y.float()).norm() / y.float().norm()).item()
            for x, y in zip(xs, ys, strict=True)
        ]
        return max(float("inf") if e != e else e for e in found)

    return {
        "logits": apart([got.logits], [exact.logits]),
        "keys": apart(got.keys, exact.keys),
        "values": apart(got.values, exact.values),
    }


def prepared(peer: Peer, decoder: Decoder, weights: Any, args: Args) -> Callable[[int], Any]:
    """Return a peer, compiled and run once."""
    return compiled(plain(decoder, weights, peer.attention), peer.mode, args)


def compiled(
    module: torch.nn.Module, mode: str | None, args: Sequence[Any]
) -> Callable[[int], Any]:
    """Return a module, compiled in a mode of ``torch.compile`` (None: eager), and run once."""
    run: Any = module
    if mode is not None:
        torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
        mode = None if mode == "default" else mode
        run = torch.compile(module, fullgraph=True, dynamic=False, mode=mode)
    run(*args)
    torch.cuda.synchronize()
    return lambda i: run(*args)


def profiled(call: Callable[[int], Any], repeats: int = 3) -> list[tuple[str, int, float]]:
    """Return the kernels of a call in the order of the total time of their launches: name,
    launches, µs."""
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        for _ in range(repeats):
            call(0)
        torch.cuda.synchronize()
    rows = [
        (e.key, e.count // repeats, e.self_device_time_total / repeats)
        for e in found.key_averages()
        if e.self_device_time_total
    ]
    return sorted(rows, key=lambda row: -row[2])


def profile_text(rows: Sequence[tuple[str, int, float]], most: int = 60) -> str:
    """Return a line for each kernel."""
    whole = sum(row[2] for row in rows)
    lines = [f"   {whole:.0f} us in {sum(row[1] for row in rows)} launches"]
    lines += [f"   {us:9.1f} us {count:4} x {name[:90]}" for name, count, us in rows[:most]]
    return "\n".join(lines)


def host_time(call: Callable[[int], Any], repeats: int = 20) -> float:
    """Return the µs until a call returns; the GPU is idle before each call."""
    spent: list[float] = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call(0)
        spent.append((time.perf_counter() - begin) * 1e6)
    torch.cuda.synchronize()
    return sorted(spent)[len(spent) // 2]


def line(row: Row) -> str:
    """Return the line that a terminal shows."""
    if "error" in row:
        return f"   FAILED: {row['error']}"
    times = ", ".join(f"{k} {t['median'] / 1e3:.3f}" for k, t in row["graph"].items())
    wrong = "" if row["correct"] else " WRONG"
    return f"   {times} ms; floor {row['floor'] / 1e3:.3f} ms; errors {row['errors']}{wrong}"


HEADER = (
    "model", "ours ms", "predicted", "floor", "of floor", "best PyTorch", "which", "speed-up",
    "plain ours", "plain eager", "host µs", "error, ours / eager", "kernels", "calls",
)  # fmt: skip


def table(rows: Sequence[Row]) -> str:
    """Markdown."""
    lines = ["| " + " | ".join(HEADER) + " |", "|---" * len(HEADER) + "|"]
    for row in rows:
        lines.append("| " + " | ".join(cells(row)) + " |")
        lines += [f"| | {name}: {why} |" for name, why in row.get("failed", {}).items()]
    return "\n".join(lines) + "\n"


def cells(row: Row) -> list[str]:
    """Return one line of the table."""
    if "error" in row:
        return [row["name"], row["error"].splitlines()[0][:120]] + [""] * (len(HEADER) - 2)
    times = {k: t["median"] / 1e3 for k, t in row["graph"].items()}
    ours = times.pop(OURS)
    name, best = min(times.items(), key=lambda item: item[1]) if times else ("-", float("nan"))
    about, floor = row["compiled"], row["floor"] / 1e3
    predicted = about.get("predicted")
    plain = row["plain"]
    eager = plain.get("eager", {}).get("median", float("nan"))
    mine, theirs = (next(iter(row["errors"][k].values())) for k in (OURS, "eager"))
    mark = "" if row["correct"] and row["replay_equal"] else " WRONG"
    return [
        row["name"], f"{ours:.3f}", "-" if predicted is None else f"{predicted / 1e3:.3f}",
        f"{floor:.3f}", f"{floor / ours:.2f}", f"{best:.3f}", name, f"{best / ours:.2f}",
        f"{plain[OURS]['median'] / 1e3:.3f}", f"{eager / 1e3:.3f}", f"{row['host']:.0f}",
        f"{mine:.1e} / {theirs:.1e}{mark}", str(about.get("kernels", "-")),
        str(len(about.get("calls", ()))),
    ]  # fmt: skip


def write(out: Path, rows: Sequence[Row], stem: str) -> None:
    """Write ``<stem>.json``, ``.raw.json`` and ``.md``."""
    where = {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
        "command": shlex.join(["python", *sys.argv]),
    }
    out.mkdir(parents=True, exist_ok=True)
    kept.write(out / f"{stem}.json", {"environment": where, "results": list(rows)}, "results",
               ("compiled", "profile"))  # fmt: skip
    head = f"{where['gpu']}, torch {where['torch']}, {where['date']}: `{where['command']}`\n\n"
    (out / f"{stem}.md").write_text(head + table(rows))
