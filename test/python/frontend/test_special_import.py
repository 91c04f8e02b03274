"""Roundings, remainders, the error function and inverse functions, against PyTorch."""

from __future__ import annotations

import mirage as mi
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from mirage.frontend.errors import UnsupportedOpError
from torch_programs.imported_values import Program, Tensor, outputs, rand

ROUNDED: dict[str, Program] = {
    "ceil": torch.ceil,
    "floor": torch.floor,
    "round": torch.round,
    "trunc": torch.trunc,
    "decimals": lambda x: torch.round(x, decimals=2),
    "tens": lambda x: torch.round(x, decimals=-1),
    "remainder": lambda x: x % 0.75,
    "negative remainder": lambda x: torch.remainder(x, -0.3),
    "fmod": lambda x: torch.fmod(x, 0.75),
    "fmod by a negative number": lambda x: torch.fmod(x, -2.5),
    "floor division": lambda x: torch.div(x, 0.1, rounding_mode="floor"),
    "division towards zero": lambda x: torch.div(x, -0.3, rounding_mode="trunc"),
}
HALVES = torch.tensor([-2.5, -1.5, -0.5, -1e-6, 0.0, 0.49999997, 0.5, 1.0, 1.5, 2.5, 3.5, 99.5])
CURVES: dict[str, Program] = {
    "erf": torch.erf,
    "erfc": torch.erfc,
    "atan": torch.atan,
    "asinh": torch.asinh,
    "cosh": lambda x: torch.cosh(x / 8),
    "tan": torch.tan,
    "hypot": lambda x: torch.hypot(x, x * 0.5 + 1),
    "atan2": lambda x: torch.atan2(x, 0.3 - x),
    "xlogy": lambda x: torch.xlogy(x.relu(), x.abs()),
    "fmax": lambda x: torch.fmax(torch.where(x > 0, x, x.log()), -x),
}
INSIDE: dict[str, Program] = {
    "asin": torch.asin,
    "acos": torch.acos,
    "atanh": torch.atanh,
    "acosh": lambda x: torch.acosh(1 + x.abs()),
}
FAR = torch.tensor([-1e4, -80.0, -30.0, -9.0, -3.0, -1.0, 1.0, 3.0, 9.0, 30.0, 80.0, 1e4])
NEAR = torch.cat([torch.logspace(-7, -0.001, 40), -torch.logspace(-7, -0.001, 40)])
ANYWHERE = torch.cat([rand(60, dtype=torch.float32) * 2, FAR, NEAR, torch.zeros(1)])


def every(programs: dict[str, Program]) -> Program:
    return lambda x: tuple(program(x) for program in programs.values())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
def test_roundings(dtype: torch.dtype) -> None:
    x = torch.cat([HALVES, rand(50, dtype=torch.float32) * 9]).to(dtype)
    found = outputs(every(ROUNDED), (x,), typed=dtype is not torch.float64)
    for (name, program), (ours, theirs) in zip(ROUNDED.items(), found, strict=True):
        # PyTorch's steps are in 16 bits on a CPU, and each of them is rounded
        expected = program(x.float()).to(dtype) if dtype is torch.float16 else theirs
        np.testing.assert_allclose(
            ours, expected, rtol=torch.finfo(dtype).eps, atol=1e-6, err_msg=name
        )


def test_roundings_of_what_is_no_fraction() -> None:
    x = torch.tensor([-torch.inf, torch.inf, torch.nan, 8388609.0, 2.0**40], dtype=torch.float64)
    names = ("ceil", "floor", "round", "trunc")
    found = outputs(every({name: ROUNDED[name] for name in names}), (x,), typed=False)
    for name, (ours, expected) in zip(names, found, strict=True):
        np.testing.assert_array_equal(ours, expected, err_msg=name)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8])
def test_integers(dtype: torch.dtype) -> None:
    def program(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return (
            torch.round(x),
            torch.div(x, y, rounding_mode="trunc"),
            torch.div(x, 3, rounding_mode="floor"),
            torch.fmod(x, y),
            torch.fmod(x, -4),
            x % y,
            ~x,
            x << 2,
            x >> 1,
            x & 3,
            x > 0.5,
            x == 0.5,
            x >= -1.5,
        )

    x = torch.arange(-9, 10).to(dtype)
    y = torch.where(x % 2 == 0, 2, -3).to(dtype)
    for ours, expected in outputs(program, (x, y), typed=False):
        np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize(("programs", "x"), [(CURVES, ANYWHERE), (INSIDE, NEAR)])
def test_curves(programs: dict[str, Program], x: Tensor) -> None:
    exact = outputs(every(programs), (x.double(),), typed=False)
    for name, (ours, expected) in zip(programs, exact, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-13, err_msg=name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("programs", "x"), [(CURVES, ANYWHERE), (INSIDE, NEAR)])
def test_curves_are_as_precise_as_the_type(
    programs: dict[str, Program], x: Tensor, dtype: torch.dtype
) -> None:
    x = x.clamp(-1e3, 1e3).to(dtype)
    # The arguments of some are rounded first.
    rounded = ("acosh",) if dtype is torch.float32 else ("acosh", "hypot", "atan2", "fmax", "cosh")
    programs = {name: program for name, program in programs.items() if name not in rounded}
    found = outputs(every(programs), (x,), typed=True)
    for (name, program), (ours, _) in zip(programs.items(), found, strict=True):
        expected = program(x.double()).to(dtype).double()
        info = torch.finfo(dtype)
        np.testing.assert_allclose(ours, expected, rtol=16 * info.eps, atol=2e-7, err_msg=name)


def test_inverses_of_what_is_too_large_to_square() -> None:
    x = torch.tensor([1.0, 1.5, 2.0, 3e4, 1e10, 3e19, 3e38, torch.inf])
    programs = {
        "asinh": torch.asinh,
        "of negative": lambda x: torch.asinh(-x),
        "acosh": torch.acosh,
    }
    for name, (ours, _) in zip(programs, outputs(every(programs), (x,), typed=True), strict=True):
        expected = programs[name](x.double())
        np.testing.assert_allclose(ours, expected, rtol=2e-7, err_msg=name)


def test_infinities_and_what_is_no_number() -> None:
    x = torch.tensor([-torch.inf, torch.inf, torch.nan, 2.0], dtype=torch.float64)
    programs = {k: v for k, v in {**CURVES, **INSIDE}.items() if k not in ("xlogy",)}
    found = outputs(every(programs), (x,), typed=False)
    for name, (ours, expected) in zip(programs, found, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-15, err_msg=name)


def test_a_divergence_where_the_target_is_zero() -> None:
    x, y = torch.log_softmax(rand(3, 5), -1), torch.softmax(rand(3, 5) + 1, -1)
    y[:, 0] = 0
    ((ours, expected),) = outputs(
        lambda x, y: F.kl_div(x, y, reduction="batchmean"), (x, y), typed=False
    )
    np.testing.assert_allclose(ours, expected, rtol=1e-12)


@pytest.mark.parametrize("program", [torch.logaddexp, torch.logaddexp2])
def test_logarithms_of_sums(program: Program) -> None:
    """The numbers may be large, infinite or NaN, and close to each other."""
    line = [-torch.inf, torch.inf, torch.nan, 0.0, 1.5, -700.0, 701.0, 1e30, -1e30]
    x, y = torch.tensor(line, dtype=torch.float64)[:, None], torch.tensor(line).double()
    ((ours, expected),) = outputs(program, (x, y), typed=False)
    np.testing.assert_allclose(ours, expected, rtol=1e-13, atol=1e-15)
    near = rand(5, 7).float(), rand(5, 7).float()
    ((ours, _),) = outputs(program, near, typed=True)
    expected = program(near[0].double(), near[1].double())
    np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("program", [lambda x: 2**x, lambda x: x**x])
def test_what_integers_do_not_have(program: Program) -> None:
    with pytest.raises(UnsupportedOpError):
        mi.from_torch(program, torch.arange(4, dtype=torch.int32))
