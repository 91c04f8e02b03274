# ruff: noqa: E501 - PTX keeps its lines
"""Accesses that are out of bounds, misaligned, or of memory that was never written: caught, with
the place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulator_support.checks import TILE, fails
from emulator_support.harness import launch
from mirage.emulator import (
    MisalignedAccessError,
    OutOfBoundsError,
    Uninitialised,
    UninitialisedReadError,
)


def test_out_of_bounds_global_names_array_lane_and_line() -> None:
    body = "mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %a0; ld.global.b32 %r1, [%d1+136];"
    error = fails(OutOfBoundsError, r"inside p0 \(256 bytes\), got 4 bytes at byte 256", body)
    assert error.thread is not None
    assert error.thread.lane == 30
    assert error.site is not None
    assert "ld.global.b32 %r1, [%d1+136]" in error.site.text
    assert error.address is not None


def test_out_of_bounds_before_the_array_and_null() -> None:
    fails(OutOfBoundsError, "is in none|inside p0", "ld.global.b32 %r1, [%a0+-4];")
    fails(OutOfBoundsError, "is in none", "mov.u64 %d1, 0; ld.global.b32 %r1, [%d1];")
    fails(OutOfBoundsError, "only read", "st.global.b32 [%a0], %t;", [_read_only()])


def _read_only() -> np.ndarray[Any, Any]:
    array = np.zeros(4, np.uint32)
    array.flags.writeable = False
    return array


def test_out_of_bounds_shared_and_local() -> None:
    fails(OutOfBoundsError, "shared address", "mov.u32 %r1, tile; st.shared.b32 [%r1+100000], %t;")
    fails(OutOfBoundsError, "shared address", "mov.u32 %r1, 0; ld.shared.b32 %r2, [%r1];")
    fails(
        OutOfBoundsError,
        "local memory",
        "ld.local.b32 %r1, [depot+64];",
        declarations=".local .align 4 .b8 depot[16];",
    )


def test_out_of_bounds_parameter_and_barrier_number() -> None:
    fails(OutOfBoundsError, "barrier number", "mov.u32 %r1, 16; bar.sync %r1;", addressed=False)


@pytest.mark.parametrize("body", [
    "ld.global.b64 %d1, [%a0+4];",
    "mov.u32 %r1, tile; st.shared.v4.b32 [%r1+8], {%t, %t, %t, %t};",
    "mov.u32 %r1, tile; cp.async.cg.shared.global [%r1+4], [%a0], 16;",
    "mov.u32 %r1, tile; cp.async.cg.shared.global [%r1], [%a0+8], 16;",
])  # fmt: skip
def test_misaligned(body: str) -> None:
    fails(MisalignedAccessError, "multiple of", body)


def test_uninitialised_register() -> None:
    error = fails(
        UninitialisedReadError,
        r"register %r5",
        "setp.lt.u32 %p1, %t, 31; @%p1 mov.u32 %r5, 1; add.u32 %r1, %r5, 1;",
    )
    assert error.thread is not None
    assert error.thread.lane == 31
    launch(
        "setp.lt.u32 %p1, %t, 31; @%p1 mov.u32 %r5, 1; @!%p1 mov.u32 %r5, 2; add.u32 %r1, %r5, 1;",
        [np.zeros(1)],
    )


def test_uninitialised_register_through_a_copy() -> None:
    fails(
        UninitialisedReadError,
        "register %r2",
        "mov.b32 %r2, %r7; mov.b32 %r3, %r2; add.u32 %r1, %r2, 1;",
    )


def test_uninitialised_shared_local_global() -> None:
    fails(UninitialisedReadError, "shared memory", "mov.u32 %r1, tile; ld.shared.b32 %r2, [%r1];")
    fails(
        UninitialisedReadError,
        "local memory",
        "ld.local.b32 %r1, [depot];",
        declarations=".local .align 4 .b8 depot[16];",
    )
    fails(
        UninitialisedReadError,
        "p0 to be written",
        "ld.global.b32 %r1, [%a0];",
        [Uninitialised(np.zeros(8, np.uint32))],
    )
    body = "mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %a0; st.global.b32 [%d1], %t; ld.global.b32 %r1, [%d1];"
    launch(body, [Uninitialised(np.zeros(32, np.uint32))])


def test_uninitialised_memory_is_nan_without_checks() -> None:
    out = np.zeros(32, np.float32)
    body = "mov.u32 %r1, tile; ld.shared.b32 %r2, [%r1]; mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %a0; st.global.b32 [%d1], %r2;"
    launch(body, [out], declarations=TILE, checks=False)
    assert np.isnan(out).all()
