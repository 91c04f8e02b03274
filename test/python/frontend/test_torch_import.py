"""Import of PyTorch programs: every row of the table against PyTorch, places, refusals."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import mirage as mi
import pytest
import torch
import torch.nn.functional as F
from mirage.frontend.errors import (
    DynamicShapeError,
    FrontendError,
    GraphTypeError,
    ImportFailedError,
    UnsupportedOpError,
)
from mirage.frontend.torch_import.rows.op_table import TABLE
from mirage.semantics.ugraph import Composite, External, LayerNorm, RmsNorm, Softmax
from thorough import some_of
from torch import nn
from torch_programs.imported_programs import check, rand

Tensor = torch.Tensor


X, Y, B = rand(4, 6), rand(6, 5), rand(2, 3, 4, 6)


def fill_by_parts(x: Tensor) -> list[Tensor]:
    """Stores into parts of tensors, as in key caches."""
    joined = x.new_empty(4, 8)
    joined[:, :2].copy_(x[:, 4:])
    joined[:, 2:] = x
    twice = torch.ones_like(x)
    twice[1:3] = x[1:3] * 2
    twice[2:, 1:2] = x[:1, :1]
    return [joined, twice]


ROWS: dict[str, tuple[Callable[..., object], tuple[Tensor, ...]]] = {
    "unary": (
        lambda x: [
            f(x)
            for f in (
                torch.neg,
                torch.abs,
                torch.exp,
                torch.square,
                torch.sigmoid,
                F.silu,
                F.relu,
                torch.tanh,
            )
        ],
        (X,),
    ),
    "positive": (
        lambda x: [f(x.abs() + 1) for f in (torch.log, torch.sqrt, torch.rsqrt, torch.reciprocal)],
        (X,),
    ),
    "gelu": (lambda x: (F.gelu(x), F.gelu(x, approximate="tanh")), (X,)),
    "exp2": (torch.exp2, (X,)),
    "arithmetic": (
        lambda x: (x + x.t().t(), x - 2, 2 - x, x * x, x * 3, x / 4, 1 / x, x / x.exp()),
        (X,),
    ),
    "alpha": (
        lambda x: (
            torch.add(x, x, alpha=3),
            torch.sub(x, 2 * x, alpha=0.5),
            torch.rsub(x, x, alpha=2),
        ),
        (X,),
    ),
    "broadcasting": (lambda x: x + x[:1] + x[:, :1] + x[0], (X,)),
    "powers": (
        lambda x: (x**2, x**3, x.abs() ** 0.5, x.abs() ** -0.5, x**-1, x**1, 2.0**x, x.abs() ** x),
        (X,),
    ),
    "extremes": (
        lambda x: (torch.maximum(x, x.exp()), torch.minimum(x, -x), torch.max(x, -x)),
        (X,),
    ),
    "clamp": (
        lambda x: (
            x.clamp(-0.5, 0.5),
            x.clamp(min=0.1),
            x.clamp(max=0.1),
            torch.clamp_min(x, 0.3),
            F.hardtanh(x),
        ),
        (X,),
    ),
    "constants": (
        lambda x: (
            x * torch.tensor(2.0) + torch.ones(6) + torch.zeros_like(x) + torch.full((4, 1), 3.0)
        ),
        (X,),
    ),
    "in place": (lambda x: x.clone().add_(1).relu_().mul_(2), (X,)),
    "matmul": (
        lambda x, y: (
            x @ y,
            torch.mm(x, y),
            torch.matmul(x, y[:, 0]),
            torch.matmul(x[0], y),
            x[0] @ y[:, 0],
        ),
        (X, Y),
    ),
    "batched": (
        lambda b: (
            torch.bmm(b[0], b[0].transpose(1, 2)),
            torch.matmul(b, b.mT),
            torch.matmul(b, b[0, 0].t()),
        ),
        (B,),
    ),
    "linear": (
        lambda x, y: (F.linear(x, y.t()), F.linear(x, y.t(), y[0]), F.linear(x, y[:, 0])),
        (X, Y),
    ),
    "addmm": (
        lambda x, y: (torch.addmm(y[0], x, y), torch.addmm(y[0], x, y, beta=0.5, alpha=2)),
        (X, Y),
    ),
    "baddbmm": (lambda b: torch.baddbmm(b[0][:, :, :4], b[0], b[0].transpose(1, 2)), (B,)),
    "einsum": (
        lambda b: (
            torch.einsum("bhsd,bhtd->bhst", b, b),
            torch.einsum("bhsd,de->bhse", b, b[0, 0].t()),
        ),
        (B,),
    ),
    "sums": (
        lambda b: (
            b.sum(),
            b.sum(1),
            b.sum((0, 2), keepdim=True),
            b.mean(),
            b.mean(-1, keepdim=True),
            b.mean((1, 2)),
        ),
        (B,),
    ),
    "maxima": (
        lambda b: (
            b.amax(-1),
            b.amax((0, 1), keepdim=True),
            b.amin(2),
            b.max(),
            b.max(dim=1).values,
        ),
        (B,),
    ),
    "variance": (
        lambda b: (
            b.var(-1),
            b.var((1, 2), correction=0, keepdim=True),
            *torch.var_mean(b, dim=2, correction=0),
        ),
        (B,),
    ),
    "softmax": (lambda b: (torch.softmax(b, -1), F.softmax(b, dim=1)), (B,)),
    "norms": (
        lambda b: (
            F.rms_norm(b, (6,), eps=0.1),
            F.layer_norm(b, (4, 6)),
            F.layer_norm(b, (6,), b[0, 0, 0], b[0, 0, 1]),
        ),
        (B,),
    ),
    "group norm": (
        lambda b: (F.group_norm(b, 3), F.group_norm(b, 1, b[0, :, 0, 0], b[1, :, 0, 0])),
        (B,),
    ),
    "layer_norm with bias only": (lambda x: F.layer_norm(x, (6,), None, x[0]), (X,)),
    "attention": (
        lambda b: (
            F.scaled_dot_product_attention(b, b, b),
            F.scaled_dot_product_attention(b, b, b, scale=0.3),
        ),
        (B,),
    ),
    "masked attention": (
        lambda b: F.scaled_dot_product_attention(b, b, b, attn_mask=b[:, :, :, :4]),
        (B,),
    ),
    "grouped attention": (
        lambda q, k: F.scaled_dot_product_attention(q, k, k, enable_gqa=True),
        (rand(2, 6, 4, 8), rand(2, 3, 10, 8)),
    ),
    "reshapes": (
        lambda b: (
            b.view(6, 24),
            b.reshape(-1, 2),
            b.flatten(1),
            b.unsqueeze(1),
            b[:1].squeeze(0),
            b.unflatten(3, (2, 3)),
        ),
        (B,),
    ),
    "squeeze": (lambda b: (b[:1, :1].squeeze(), b[:1, :1].squeeze((0, 1))), (B,)),
    "expand": (
        lambda x: (x[:1].expand(3, 4, 6), torch.broadcast_to(x, (2, 4, 6)), x[:, :1].expand_as(x)),
        (X,),
    ),
    "transposes": (
        lambda b: (b.permute(3, 0, 2, 1), b.transpose(1, -1), b[0, 0].t(), b.mT, b.movedim(0, 2)),
        (B,),
    ),
    "joins": (
        lambda x: (torch.cat([x, 2 * x], 1), torch.stack([x, x, -x], 1), torch.cat([x], 0)),
        (X,),
    ),
    "slices with steps": (
        lambda x: tuple(
            x[:, start:stop:step] + 1
            for start in range(6)
            for stop in range(start + 1, 7)
            for step in (2, 3, 4)
        ),
        (X,),
    ),
    "rotated pairs": (lambda x: torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2), (B,)),
    "stores into parts": (fill_by_parts, (X,)),
    "padding": (
        lambda x: (F.pad(x, (1, 2)), F.pad(x, (0, 1, 2, 0), value=3.0), F.pad(x, (-1, 2, 1, -2))),
        (X,),
    ),
    "pointwise convolution": (
        lambda x, w: (
            F.conv2d(x, w[:5, :3, None, None], w[:5, 3]),
            F.conv1d(x[:, :, 0], w[:2, :3, None]),
            F.conv2d(x, w[:5, :3, None, None], stride=2),
            F.conv2d(x, w[:5, :3, None, None], w[:5, 3], stride=(3, 4)),
            F.conv1d(x[:, :, 0], w[:2, :3, None], stride=5),
        ),
        (B, rand(6, 6)),
    ),
    "patches": (
        lambda x, w: (
            F.conv2d(x, w, stride=2),
            F.conv2d(x[..., :5], w, w[:, 0, 0, 0], stride=(2, 2)),
        ),
        (B, rand(5, 3, 2, 2)),
    ),
    "logarithms": (
        lambda x: (torch.log1p(x.abs()), F.softplus(x), F.softplus(8 * x, beta=2, threshold=30)),
        (X,),
    ),
    "softplus": (
        lambda x: (
            F.softplus(4 * x, threshold=2),
            F.softplus(4 * x, beta=3, threshold=1),
            F.softplus(4 * x, beta=-2),
            F.softplus(4 * x, beta=-2, threshold=1),
        ),
        (X,),
    ),
    "slices": (
        lambda b: (b[:, 1:3, ..., :4], b[1], b[:, -1], b[..., 2:-1], b.narrow(3, 1, 2)),
        (B,),
    ),
    "splits": (
        lambda x: (*x.chunk(4, 1), *x.split(4, 1), *x.split([1, 2, 3], -1), *x.unbind(0)),
        (X,),
    ),
    "repeats": (
        lambda x: (
            x.repeat(2, 3),
            x.repeat(2, 1, 1),
            x.repeat_interleave(3, dim=1),
            x.repeat_interleave(2),
        ),
        (X,),
    ),
    "copies": (lambda x: (x.contiguous() + 1, x.detach() + 1, x.clone() + 1), (X,)),
    "repeat_kv": (lambda b: b[:, :, None].expand(2, 3, 5, 4, 6).reshape(2, 15, 4, 6), (B,)),
    "dropout": (lambda x: F.dropout(x, 0.5, training=False) + 1, (X,)),
}


@pytest.mark.parametrize("name", some_of(ROWS))
def test_rows(name: str) -> None:
    program, inputs = ROWS[name]
    check(program, *inputs)


def test_every_row_names_an_op_of_pytorch() -> None:
    missing = []
    for name in TABLE:
        namespace, op, *overload = name.split(".")
        if namespace not in ("aten", "prims"):
            continue  # of a library that defines it when it is loaded
        packet = getattr(getattr(torch.ops, namespace), op)
        if not hasattr(packet, overload[0] if overload else "default"):
            missing.append(name)
    assert missing == []


def test_types_convert() -> None:
    def program(x: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        return (
            x.float() * 2,
            x.to(torch.bfloat16) + 1,
            h * x,
            h + 1e-3,
            h.sum(dtype=torch.float32),
            torch.softmax(h, 0, dtype=torch.float32),
        )

    check(program, X.float(), X.half(), rtol=2e-2, atol=1e-2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_default_eps_of_rms_norm(dtype: torch.dtype) -> None:
    """Inputs so small that eps decides the result."""
    x = (rand(4, 8) * 2e-4).to(dtype)
    check(lambda x: F.rms_norm(x, (8,)), x, rtol=2e-2)


def test_norms_and_softmax_stay_whole() -> None:
    imported = mi.from_torch(
        lambda x: torch.softmax(F.layer_norm(F.rms_norm(x, (6,)), (6,)), -1), X
    )
    assert [type(op) for op in imported.graph.ops if isinstance(op, Composite)] == [
        RmsNorm,
        LayerNorm,
        Softmax,
    ]


def line_of(offset: int) -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno + offset


def test_locations_are_the_users() -> None:
    def program(x: Tensor) -> Tensor:
        y = F.linear(x, x)
        return torch.exp(y)

    first = line_of(-3)
    imported = mi.from_torch(program, X)
    places = [imported.program.locations[op] for op in imported.graph.ops]
    assert {p.file for p in places} == {__file__}
    assert [p.line for p in places] == [first, first, first + 1]


def test_unknown_op_is_named_with_its_place() -> None:
    def program(x: Tensor) -> Tensor:
        return torch.polygamma(1, x) + 1

    line = line_of(-2)
    with pytest.raises(UnsupportedOpError) as caught:
        mi.from_torch(program, X)
    assert caught.value.op == "aten.polygamma"
    assert str(caught.value).startswith(
        f"{__file__}:{line}: aten.polygamma on 4x6xf64 is not supported"
    )
    assert "allow_fallback=True" in str(caught.value)


def test_unknown_op_in_code_of_pytorch_is_named_with_its_submodule() -> None:
    module = nn.Sequential(nn.ReLU(), nn.ConvTranspose2d(3, 8, 3))
    with pytest.raises(
        UnsupportedOpError, match=r"^submodule 1: ConvTranspose2d: aten\.convolution"
    ):
        mi.from_torch(module, torch.zeros(1, 3, 8, 8))


def test_fallback_keeps_the_op() -> None:
    imported = mi.from_torch(lambda x: torch.polygamma(1, torch.exp(x)) + 1, X, allow_fallback=True)
    (external,) = [op for op in imported.graph.ops if isinstance(op, External)]
    assert external.target == "aten.polygamma"
    assert external.arguments == (("n", 1),)
    assert external.result.shape == (4, 6)


def test_fallback_passes_integers_one_by_one() -> None:
    imported = mi.from_torch(
        lambda x: torch.gather(x, 1, torch.argmax(x, 1, True).bitwise_xor(1)) * 2,
        X.float(),
        allow_fallback=True,
    )
    calls = [op.target for op in imported.graph.ops if isinstance(op, External)]
    assert calls == ["aten.bitwise_xor.Scalar"]  # an index may be any element
    assert len(imported.graph.ops) > len(calls)  # the place, the lookup and the product stay ours


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        return x * 2


REFUSED: list[tuple[str, Callable[..., object], tuple[object, ...], type[FrontendError], str]] = [
    (
        "softplus without a scale",
        lambda x: F.softplus(x, beta=0.0),
        (X,),
        UnsupportedOpError,
        "beta 0",
    ),
    (
        "convolution",
        lambda x: F.conv_transpose2d(x, x.new_ones(3, 2, 3, 3)),
        (B,),
        UnsupportedOpError,
        "a transposed convolution",
    ),
    ("training dropout", nn.Dropout(0.5), (X,), UnsupportedOpError, "call .eval()"),
    ("data-dependent", lambda x: x[x > 0] + 1, (X,), FrontendError, ""),
    (
        "data-dependent branch",
        lambda x: x if x.sum() > 0 else -x,
        (X,),
        DynamicShapeError,
        "do not depend on the data",
    ),
    (
        "unsigned integers",
        lambda x: torch.gcd(x, x),
        (torch.ones(4, dtype=torch.uint8),),
        UnsupportedOpError,
        "kernels have no tensors of uint8; pass allow_fallback=True",
    ),
    (
        "control flow",
        lambda x: torch.cond(x.sum() > 0, torch.neg, torch.relu, (x,)),
        (X,),
        UnsupportedOpError,
        "cond runs functions",
    ),
    (
        "a shape that depends on the data",
        lambda x: torch.nonzero(x),
        (X,),
        DynamicShapeError,
        "aten.nonzero.default gives a tensor of shape (u0, 2), which depends on the data",
    ),
    (
        "a number that depends on the data",
        lambda x: x * x.sum().item(),
        (X,),
        DynamicShapeError,
        "aten.item.default gives a number that depends on the data",
    ),
    ("no tensor", "module", (X,), GraphTypeError, "expected a torch.nn.Module, a function"),
    ("wrong shapes", lambda x: x @ x, (X,), ImportFailedError, "could not capture"),
    ("nothing", lambda x: None, (X,), FrontendError, ""),
    ("state", Counter(), (X,), ImportFailedError, "an update of 'count'"),
]


@pytest.mark.parametrize(
    ("name", "program", "inputs", "kind", "message"), REFUSED, ids=[r[0] for r in REFUSED]
)
def test_refused(
    name: str,
    program: Callable[..., object],
    inputs: tuple[object, ...],
    kind: type[FrontendError],
    message: str,
) -> None:
    with pytest.raises(kind) as caught:
        mi.from_torch(program, *inputs)
    assert message in str(caught.value)
    assert caught.value.location is not None
    assert caught.value.location.file == __file__


def test_dynamic_shapes_are_refused() -> None:
    exported = torch.export.export(
        nn.Linear(6, 5), (rand(4, 6).float(),), dynamic_shapes=({0: torch.export.Dim("n")},)
    )
    with pytest.raises(DynamicShapeError, match="expected fixed shapes, got"):
        mi.from_torch(exported)


def test_inputs_are_called_as_in_the_program() -> None:
    def program(hidden: Tensor, weight: Tensor) -> Tensor:
        return hidden @ weight

    assert [v.name for v in mi.from_torch(program, X, Y).graph.inputs] == ["hidden", "weight"]
    assert [v.name for v in mi.from_torch(nn.Linear(6, 5), X.float()).graph.inputs] == [
        "input",
        "weight",
        "bias",
    ]
