"""A graph of TorchDynamo as a message to another process, which imports it there.

The message has the contents of the graph's canonical text (:mod:`mirage.torch.graph_text`): ops by
their names, types, shapes, strides and devices of inputs without their elements, and the tensors
that the graph holds with theirs; also the positions in the user's program, for error messages. The
process sees no GPU: it has the tensors that the graph holds on the GPU in host memory, and knows
where they belong. The effects, which depend on the GPU (its attention chooses the strides of its
result), are part of the message.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_aggregate

from mirage.frontend.torch_import.capture.effects import Effects, effects_of
from mirage.torch.graph_rows import Rows
from mirage.torch.graph_text import (
    AUTOCAST,
    NoTextError,
    bytes_of,
    function_at,
    function_name,
    graph_lines,
    held_tensor,
    settings_line,
)

SDP = ("flash", "mem_efficient", "math", "cudnn")


@dataclass(frozen=True)
class Ref:
    """An argument that is the result of an earlier node, by its number."""

    number: int


@dataclass(frozen=True)
class SentNode:
    """A node of the graph; functions are given by their names. ``trace`` says where it stands in
    the user's program."""

    op: str
    target: str
    args: Any
    kwargs: Any
    trace: str | None


@dataclass(frozen=True)
class SentTensor:
    """A tensor; ``content`` are its elements in row-major order, if they are known."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: str
    trained: bool
    content: bytes | None = None


@dataclass(frozen=True)
class Settings:
    """The settings of PyTorch that imports depend on and that differ between processes."""

    default_dtype: torch.dtype
    precision: str
    deterministic: bool
    inference: bool
    sdp: tuple[bool, ...]
    autocast: tuple[tuple[bool, torch.dtype], ...]

    @staticmethod
    def current() -> Settings:
        """Return the settings of this process."""
        cuda = torch.backends.cuda
        return Settings(
            torch.get_default_dtype(), torch.get_float32_matmul_precision(),
            torch.are_deterministic_algorithms_enabled(), torch.is_inference_mode_enabled(),
            tuple(getattr(cuda, f"{name}_sdp_enabled")() for name in SDP),
            tuple((torch.is_autocast_enabled(k), torch.get_autocast_dtype(k)) for k in AUTOCAST),
        )  # fmt: skip

    @contextmanager
    def applied(self) -> Generator[None]:
        """Apply the settings to this process, which keeps all of them except the inference mode."""
        torch.set_default_dtype(self.default_dtype)
        torch.set_float32_matmul_precision(self.precision)
        torch.use_deterministic_algorithms(self.deterministic)
        for name, on in zip(SDP, self.sdp, strict=True):
            getattr(torch.backends.cuda, f"enable_{name}_sdp")(on)
        for kind, (on, dtype) in zip(AUTOCAST, self.autocast, strict=True):
            torch.set_autocast_enabled(kind, on)
            torch.set_autocast_dtype(kind, dtype)
        with torch.inference_mode(self.inference):
            yield


@dataclass(frozen=True)
class GraphMessage:
    """A graph and the types of its inputs."""

    text: str
    nodes: tuple[SentNode, ...]
    held: tuple[tuple[str, SentTensor], ...]
    inputs: tuple[SentTensor | int | float, ...]
    settings: Settings
    effects: Effects
    rows: Rows | None = None
    """The inputs with a dynamic size; they are stated at the largest size of a class."""

    def graph(self) -> tuple[GraphModule, list[Any]]:
        """Return the graph and inputs without elements."""
        root = torch.nn.Module()
        for path, tensor in self.held:
            _hold(root, path, tensor)
        graph = Graph()
        made: list[Node] = []

        def known(x: Any) -> Any:
            return made[x.number] if isinstance(x, Ref) else x

        for sent in self.nodes:
            target: Any = function_at(sent.target) if sent.op == "call_function" else sent.target
            args: Any = map_aggregate(sent.args, known)
            kwargs: Any = map_aggregate(sent.kwargs, known)
            node = graph.create_node(sent.op, target, args, kwargs)
            if sent.trace is not None:
                node.meta["stack_trace"] = sent.trace
            made.append(node)
        with FakeTensorMode():
            inputs = [_like(x) if isinstance(x, SentTensor) else x for x in self.inputs]
        return GraphModule(root, graph), inputs

    @property
    def homes(self) -> dict[str, torch.device]:
        """The devices of the tensors that the graph does not hold on the host."""
        devices = {path: torch.device(sent.device) for path, sent in self.held}
        return {path: device for path, device in devices.items() if device.type != "cpu"}

    def is_told_by(self, module: GraphModule) -> bool:
        """Return whether a graph has the same text in this process as in the sender."""
        settings, *rest = self.text.split("\n")
        lines = graph_lines(module, self.homes)
        if self.rows is not None:
            lines.append(self.rows.text)
        return settings == settings_line() and rest[len(self.inputs) :] == lines


def message_of(
    module: GraphModule, inputs: Sequence[Any], text: str, rows: Rows | None = None
) -> GraphMessage | None:
    """Return the message for a graph with a canonical text; None if its import depends on something
    that the other process does not have. Raises the errors of
    :func:`~mirage.frontend.torch_import.capture.effects.effects_of`."""
    if torch.get_default_device().type != "cpu":
        return None
    held: dict[str, SentTensor] = {}
    for node in module.graph.find_nodes(op="get_attr"):
        x = held_tensor(module, str(node.target))
        if type(x) not in (torch.Tensor, torch.nn.Parameter):
            return None
        held[str(node.target)] = _sent(x, bytes_of(x))
    numbers = {node: number for number, node in enumerate(module.graph.nodes)}

    def refer(x: Any) -> Any:
        return Ref(numbers[x]) if isinstance(x, Node) else x

    nodes = tuple(
        SentNode(
            node.op,
            function_name(node.target) if node.op == "call_function" else str(node.target),
            map_aggregate(node.args, refer),
            map_aggregate(node.kwargs, refer),
            node.meta.get("stack_trace"),
        )
        for node in module.graph.nodes
    )
    sent = tuple(_sent(x) if isinstance(x, torch.Tensor) else x for x in inputs)
    effects = effects_of(module, inputs)
    return GraphMessage(text, nodes, tuple(held.items()), sent, Settings.current(), effects, rows)


def likenesses(inputs: Sequence[Any]) -> list[Any]:
    """Return tensors without elements, and so without memory, in place of tensors."""
    with FakeTensorMode():
        return [_like(_sent(x)) if isinstance(x, torch.Tensor) else x for x in inputs]


def _sent(x: torch.Tensor, content: bytes | None = None) -> SentTensor:
    trained = isinstance(x, torch.nn.Parameter)
    return SentTensor(x.dtype, tuple(x.shape), x.stride(), str(x.device), trained, content)


def _like(sent: SentTensor) -> torch.Tensor:
    return torch.empty_strided(sent.shape, sent.strides, dtype=sent.dtype, device=sent.device)


def _hold(root: torch.nn.Module, path: str, sent: SentTensor) -> None:
    *owners, name = path.split(".")
    for owner in owners:
        if not hasattr(root, owner):
            root.add_module(owner, torch.nn.Module())
        root = root.get_submodule(owner)
    x = torch.empty_strided(sent.shape, sent.strides, dtype=sent.dtype)
    if x.numel():
        content = torch.frombuffer(bytearray(sent.content or b""), dtype=sent.dtype)
        x.copy_(content.reshape(sent.shape))
    setattr(root, name, torch.nn.Parameter(x, requires_grad=False) if sent.trained else x)


__all__ = ["GraphMessage", "NoTextError", "likenesses", "message_of"]
