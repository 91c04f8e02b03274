"""The canonical text of a graph of TorchDynamo for inputs like given ones: graphs of equal text are
imported as the same program.

The text contains everything that an import depends on: ops with their arguments, in order; types,
shapes, strides and devices of inputs; the values of numbers; the contents of tensors that the graph
holds; and the settings and versions of PyTorch. The names of values do not matter, and neither does
the place in the user's program. A graph that contains something whose meaning cannot be written as
text has no canonical text.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch._ops import OpOverload, OpOverloadPacket
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import GraphModule, Node
from torch.fx.immutable_collections import immutable_dict, immutable_list

LARGEST = 1 << 24
"""The most bytes that a graph may hold: its tensors are read each time."""
OPS = frozenset({"aten", "prims"})
"""The namespaces of ops that belong to PyTorch itself."""
AUTOCAST = ("cpu", "cuda")
"""The kinds of devices with an autocast."""
_PACKAGES = ("torch", "_operator", "math", "builtins")
_PLAIN = (bool, int, float, complex, str, type(None), type(Ellipsis))
_NAMED = (torch.dtype, torch.device, torch.layout, torch.memory_format)


class NoTextError(ValueError):
    """The graph has no canonical text; the message says why."""


def graph_text(module: GraphModule, inputs: Sequence[Any]) -> str:
    """Return the canonical text of a graph. Raises :class:`NoTextError`."""
    return "\n".join((settings_line(), *map(_input, inputs), *graph_lines(module)))


def graph_lines(module: GraphModule, homes: Mapping[str, torch.device] | None = None) -> list[str]:
    """Return a line for each node of a graph. ``homes`` gives the devices of those tensors that the
    graph holds elsewhere. Raises :class:`NoTextError`."""
    lines: list[str] = []
    numbers: dict[Node, int] = {}
    held = 0
    for node in module.graph.nodes:
        if node.op == "get_attr":
            x = held_tensor(module, str(node.target))
            held += x.numel() * x.element_size()
            if held > LARGEST:
                raise NoTextError(f"it holds tensors of more than {LARGEST} bytes")
            home = (homes or {}).get(str(node.target), x.device)
            what = f"{node.target} {type(x).__name__} {_tensor(x, home)} {_digest(x)}"
        elif node.op == "call_function":
            what = function_name(node.target)
        elif node.op == "call_method":
            what = str(node.target)
        elif node.op in ("placeholder", "output"):
            what = ""
        else:
            raise NoTextError(f"a node is a {node.op}")
        taken = (_argument((node.args, node.kwargs), numbers),) if node.op != "placeholder" else ()
        numbers[node] = len(numbers)
        lines.append(" ".join((node.op, what, *taken)))
    return lines


def settings_line() -> str:
    """Return the settings and versions that PyTorch's ops and their decompositions depend on,
    besides their arguments. Raises :class:`NoTextError`."""
    try:
        importer = importlib.metadata.version("torch-mlir")
    except importlib.metadata.PackageNotFoundError:
        raise NoTextError("the version of torch-mlir is not known") from None
    cuda = torch.backends.cuda
    settings = (
        torch.__version__, torch.version.git_version, importer, sys.version_info[:2],
        torch.get_default_dtype(), torch.get_default_device(),
        torch.get_float32_matmul_precision(),
        torch.are_deterministic_algorithms_enabled(), torch.is_inference_mode_enabled(),
        *(torch.is_autocast_enabled(kind) for kind in AUTOCAST),
        *(torch.get_autocast_dtype(kind) for kind in AUTOCAST),
        cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.math_sdp_enabled(),
        cuda.cudnn_sdp_enabled(),
    )  # fmt: skip
    return json.dumps([str(x) for x in settings])


def _input(x: Any) -> str:
    if type(x) in (int, float, bool):
        return f"{type(x).__name__} {x!r}"
    if type(x) not in (torch.Tensor, torch.nn.Parameter, FakeTensor):
        raise NoTextError(f"an input is a {type(x).__name__}")
    return _tensor(x, x.device)


def _tensor(x: torch.Tensor, device: torch.device) -> str:
    if x.layout is not torch.strided or x.is_conj() or x.is_neg() or x.is_quantized:
        raise NoTextError("a tensor is not just elements at strides")
    return f"{x.dtype} {tuple(x.shape)} {x.stride()} {device.type}"


def held_tensor(module: GraphModule, path: str) -> torch.Tensor:
    """Return the tensor that a graph holds at a path. Raises :class:`NoTextError`."""
    owner, _, name = path.rpartition(".")
    x = getattr(module.get_submodule(owner), name)
    if type(x) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer) or x.is_meta:
        raise NoTextError(f"{path} is a {type(x).__name__}")
    return x


def _digest(x: torch.Tensor) -> str:
    return hashlib.sha256(bytes_of(x)).hexdigest()


def bytes_of(x: torch.Tensor) -> bytes:
    """Return the elements of a tensor in row-major order."""
    flat = x.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes()


def function_name(function: Any) -> str:
    """Return the name of an op or a function of PyTorch or Python. Raises :class:`NoTextError` for
    others: only functions that belong to a version of PyTorch do not change."""
    if isinstance(function, OpOverload | OpOverloadPacket):
        name = str(function)
        if name.partition(".")[0] in OPS:
            return name
        raise NoTextError(f"{name} is not an op of PyTorch's own")
    name = getattr(function, "__qualname__", "") or getattr(function, "__name__", "")
    package = getattr(function, "__module__", None)
    places = [package] if package else ["torch", "torch._C._nn"]
    name = name.removeprefix("_VariableFunctionsClass.")
    for place in places:
        found = _at(place, name)
        if found is function and place.partition(".")[0] in _PACKAGES:
            return f"{place}:{name}"
    raise NoTextError(f"{name or function!r} is not found by its name")


def function_at(name: str) -> Any:
    """Return the op or function of a name; the inverse of :func:`function_name`."""
    place, colon, path = name.partition(":")
    if colon:
        importlib.import_module(place)
        return _at(place, path)
    found: Any = torch.ops
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _at(place: str, name: str) -> Any:
    found: Any = sys.modules.get(place)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _argument(x: Any, numbers: dict[Node, int]) -> str:
    def each(items: Any) -> str:
        return ", ".join(_argument(item, numbers) for item in items)

    if isinstance(x, Node):
        return f"%{numbers[x]}"
    if type(x) in _PLAIN:
        return repr(x)
    if isinstance(x, _NAMED):
        return f"<{x}>"
    if isinstance(x, slice):
        return f"slice({each((x.start, x.stop, x.step))})"
    if isinstance(x, torch.Size):
        return f"size({each(x)})"
    kind = _plain_sequence(x)
    if kind:
        return f"{kind}({each(cast('Sequence[Any]', x))})"
    if isinstance(x, dict) and _is_plain(x, dict):
        items = cast("dict[Any, Any]", x).items()
        return f"dict({', '.join(f'{_argument(k, numbers)}: {each((v,))}' for k, v in items)})"
    raise NoTextError(f"an argument is a {type(x).__name__}")


def _plain_sequence(x: Any) -> str:
    for kind in (tuple, list):
        if isinstance(x, kind) and _is_plain(x, kind):
            return kind.__name__
    return ""


def _is_plain(x: Any, kind: type) -> bool:
    """Return whether a collection is Python's own, or the form that graphs give it."""
    return type(x) in (kind, immutable_list, immutable_dict)
