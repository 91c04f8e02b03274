"""Functions composed of others: their rows against PyTorch, also near 0 and far from it."""

from __future__ import annotations

import mirage as mi
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from mirage.frontend.errors import UnsupportedOpError
from thorough import some_of
from torch_programs.imported_values import Program, Tensor, outputs, rand

X = rand(4, 6)
INDICES = torch.tensor([0, 2, 3, 1])
SMALL = torch.tensor([-1e-3, -1e-6, -1e-12, 0.0, 1e-12, 1e-6, 1e-3], dtype=torch.float64)
FAR = torch.tensor([-80.0, -30.0, -8.5, 8.5, 30.0, 80.0], dtype=torch.float64)
EXTREME = torch.tensor([-torch.inf, torch.inf, torch.nan, 1.0], dtype=torch.float64)
ELEMENTWISE: dict[str, Program] = {
    "leaky relu": F.leaky_relu,
    "leaky relu, steep": lambda x: F.leaky_relu(x, 1.5),
    "leaky relu, a mean slope": lambda x: F.rrelu(x, 0.1, 0.4, training=False),
    "elu": F.elu,
    "elu, alpha": lambda x: F.elu(x, 0.3),
    "selu": F.selu,
    "celu": lambda x: F.celu(x, 1.7),
    "expm1": torch.expm1,
    "sinh": torch.sinh,
    "log2": lambda x: torch.log2(x.abs()),
    "log10": lambda x: torch.log10(x.abs()),
    "trunc": torch.trunc,
    "frac": torch.frac,
    "sign": torch.sign,
    "isnan": torch.isnan,
    "isinf": torch.isinf,
    "logaddexp": lambda x: torch.logaddexp(x, 0.5 * x),
    "logaddexp, nearly nothing": lambda x: torch.logaddexp(x, 0.0 * x),
    "log1p": torch.log1p,
    "softplus": F.softplus,
    "log sigmoid": F.logsigmoid,
    "mish": F.mish,
    "product of truth values": lambda x: (x > 0) * (x < 1),
}


def each(x: Tensor) -> tuple[Tensor, ...]:
    """All cases, imported at once."""
    return tuple(function(x) for function in ELEMENTWISE.values())


def test_elementwise() -> None:
    x = torch.cat([X.reshape(-1), SMALL, FAR])
    found = outputs(each, (x,), typed=False)
    for name, (ours, expected) in zip(ELEMENTWISE, found, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-300, err_msg=name)


def test_infinities_and_what_is_no_number() -> None:
    found = outputs(each, (EXTREME,), typed=False)
    for name, (ours, expected) in zip(ELEMENTWISE, found, strict=True):
        if name != "frac":  # inf - inf in both, but PyTorch gives 0
            np.testing.assert_allclose(ours, expected, rtol=1e-15, err_msg=name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_as_precise_as_pytorch(dtype: torch.dtype) -> None:
    x = torch.cat([X.reshape(-1), SMALL, FAR / 8]).to(dtype)
    unit = torch.finfo(dtype).eps
    found = outputs(each, (x,), typed=True)
    for (name, function), (ours, _) in zip(ELEMENTWISE.items(), found, strict=True):
        exact = function(x.double())
        expected = exact.to(dtype if exact.is_floating_point() else exact.dtype).double().numpy()
        least = torch.finfo(dtype).tiny
        np.testing.assert_allclose(ours, expected, rtol=4 * unit, atol=least, err_msg=name)


OTHERS: dict[str, tuple[Program, tuple[Tensor, ...]]] = {
    "logit": (torch.logit, (X,)),
    "logit of shares": (torch.logit, (X.sigmoid(),)),
    "logit with a least share": (lambda x: torch.logit(x, 0.1), (X,)),
    "log softmax": (lambda x: torch.log_softmax(x, -1), (X,)),
    "log softmax of columns": (lambda x: F.log_softmax(50 * x, 0), (X,)),
    "log softmax in f32": (lambda x: F.log_softmax(x, -1, dtype=torch.float32), (X.half(),)),
    "log softmax of a number": (lambda x: F.log_softmax(x, 0), (X[0, 0].clone(),)),
    "cross-entropy": (F.cross_entropy, (X, torch.tensor([0, 5, 2, 2]))),
    "cross-entropy, each": (
        lambda x, t: F.cross_entropy(x, t, reduction="none", label_smoothing=0.1),
        (X, torch.tensor([0, 5, 2, 2])),
    ),
    "product of none": (lambda x: (x[:, :0].prod(-1), x[:0].prod(0)), (rand(5, 7),)),
    "product": (lambda x: (x.prod(), x.prod(-1), x.prod(0, keepdim=True)), (rand(5, 7),)),
    "diagonals": (
        lambda x: (x.diagonal(), x.diagonal(2), x.diagonal(-1), torch.trace(x)),
        (rand(4, 6),),
    ),
    "diagonals of several": (lambda x: x.diagonal(1, 2, 0), (rand(4, 3, 6),)),
    "a diagonal beside infinities": (
        lambda x: x.diagonal(),
        (torch.full((3, 3), torch.inf).fill_diagonal_(2.0).double(),),
    ),
    "instance norm": (F.instance_norm, (rand(2, 3, 8),)),
    "instance norm with weights": (
        lambda x, w, b: F.instance_norm(x, weight=w, bias=b, eps=1e-3),
        (rand(2, 3, 4, 5), rand(3), rand(3)),
    ),
    "mean of windows": (lambda x: F.avg_pool2d(x, (2, 3)), (rand(2, 3, 4, 6),)),
    "mean of windows of a line": (lambda x: F.avg_pool1d(x, 2), (rand(2, 3, 6),)),
    "mean of all": (lambda x: F.adaptive_avg_pool2d(x, 1), (rand(2, 3, 4, 6),)),
    "as many windows": (lambda x: F.adaptive_avg_pool2d(x, (2, 3)), (rand(2, 3, 4, 6),)),
    "buckets": (
        lambda x, b: (torch.bucketize(x, b), torch.bucketize(x, b, right=True, out_int32=True)),
        (torch.tensor([[-1.0, 0.0, 0.5], [1.0, 2.5, 9.0]]), torch.tensor([0.0, 1.0, 2.5])),
    ),
    "signs of integers": (torch.sign, (torch.arange(-3, 4),)),
}


@pytest.mark.parametrize("name", some_of(OTHERS, every=3))
def test_others(name: str) -> None:
    program, inputs = OTHERS[name]
    for ours, expected in outputs(program, inputs, typed=False):
        tolerance = 1e-6 if "f32" in name else 1e-12
        np.testing.assert_allclose(ours, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("program", "text"),
    [
        (lambda x: x * 1e39, "the number 1e\\+39, which is infinite in f32"),
        (lambda x: x + torch.full((6,), 7e4, dtype=torch.float16), "70000.*f16 .*up to 65504"),
    ],
)
def test_numbers_that_a_type_makes_infinite(program: Program, text: str) -> None:
    with pytest.raises(UnsupportedOpError, match=text) as found:
        mi.from_torch(program, X.float())
    assert found.value.location is not None
    assert mi.from_torch(lambda x: x * 1e5, X.half()).graph.ops  # in f32, as in PyTorch


@pytest.mark.parametrize(
    ("program", "dtype", "text"),
    [
        (lambda x: x + torch.full((6,), 300, dtype=torch.int8), torch.int8, "300.* -128 to 127"),
        (lambda x: torch.full_like(x, 1 << 40) + x, torch.int32, "i32 does not have"),
        (lambda x: F.pad(x, (0, 1), value=-129), torch.int8, "the number -129"),
        (lambda x: x.masked_fill(x > 0, 300), torch.int8, "the number 300"),
        (lambda x: torch.where(x > 0, x, 300), torch.int8, "the number 300"),
        (lambda x: x.clamp(max=1 << 40), torch.int32, "i32 does not have"),
        (lambda x: x.masked_fill(x > 0, -1e9), torch.float16, "-1e\\+09, which is infinite in f16"),
        (lambda x: x.clamp(-1e5, 1e5), torch.float16, "-100000, which is infinite in f16"),
        (lambda x: x.index_fill(0, INDICES, 1e5), torch.float16, "100000, which is infinite"),
        (lambda x: x.clone().index_fill_(1, INDICES, -1e5), torch.float16, "-100000, which is"),
        (lambda x: x.index_fill(0, INDICES, torch.tensor(1e5)), torch.float16, "100000, which is"),
        (lambda x: x.masked_fill(x > 0, torch.tensor(1e5)), torch.float16, "100000, which is"),
        (lambda x: x.scatter(1, INDICES[:, None], 1e5), torch.float16, "100000, which is"),
        (lambda x: F.threshold(x, 2.0, 1e5), torch.float16, "100000, which is infinite in f16"),
        (lambda x: F.hardshrink(x, 1e5), torch.float16, "100000, which is infinite in f16"),
        (lambda x: x.pow(1e5), torch.float16, "100000, which is infinite in f16"),
        (lambda x: x.index_fill(0, INDICES, 300), torch.int8, "the number 300"),
    ],
)
def test_numbers_that_pytorch_does_not_convert(
    program: Program, dtype: torch.dtype, text: str
) -> None:
    """PyTorch stops with an error when it runs these programs."""
    x = torch.ones(4, 6, dtype=dtype)
    with pytest.raises(RuntimeError, match="without overflow"):
        program(x)
    with pytest.raises(UnsupportedOpError, match=text):
        mi.from_torch(program, x)


def test_numbers_that_types_have() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        x = x.clamp(-128, 127).masked_fill(x > 0, -128)
        return torch.where(x < 0, x, 127) + torch.full((6,), -128, dtype=torch.int8)

    assert mi.from_torch(program, X.to(torch.int8)).graph.ops
    infinite = mi.from_torch(lambda x: x.masked_fill(x > 0, float("-inf")), X.half())
    assert infinite.graph.ops
    filled = mi.from_torch(lambda x: F.threshold(x.index_fill(0, INDICES, 6e4), 1e5, 1), X.half())
    assert filled.graph.ops


@pytest.mark.parametrize(
    "program",
    [
        lambda x: torch.lgamma(x),
        lambda x: F.avg_pool2d(F.pad(x, (100, 100)), (1, 99), stride=1),
        lambda x: torch.linalg.vector_norm(x, -2.0),
        lambda x: torch.erfinv(x),
    ],
)
def test_what_is_left_to_pytorch(program: Program) -> None:
    with pytest.raises(UnsupportedOpError):
        mi.from_torch(program, rand(2, 3, 6, 8))
