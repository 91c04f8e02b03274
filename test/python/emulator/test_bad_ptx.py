"""Text outside the supported subset of PTX, and launches that do not fit, give clear errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulator_support.checks import TILE
from emulator_support.harness import HEADER, emulator, kernel, launch
from mirage.emulator import (
    Emulator,
    EmulatorError,
    LaunchError,
    PtxSyntaxError,
    TensorMap,
    UnknownInstructionError,
)


@pytest.mark.parametrize(("body", "match"), [
    ("frobnicate.u32 %r1, %r2;", "frobnicate"),
    ("add.u33 %r1, %r1, %r1;", r"add.u33 \(.u33 not understood\)"),
    ("add.u32.wrong %r1, %r1, %r1;", "wrong"),
    ("add.u32 %r1, %r1;", "expected 3 operands, got 2"),
    ("add.u32 %h1, %h1, %h1;", r"register %h1 \(.b16\)|destination %h1"),
    ("mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32 {%f1}, {%r1}, {%r1}, {%f1};", "row"),
    ("cp.async.cg.shared.global [%r1], [%a0], 4;", "cp.async"),
])  # fmt: skip
def test_unknown_instruction_quotes_the_line(body: str, match: str) -> None:
    with pytest.raises(UnknownInstructionError, match=match) as caught:
        Emulator(kernel(body)).program("test")
    assert caught.value.site is not None
    assert caught.value.site.text == body


@pytest.mark.parametrize(("body", "match"), [
    ("add.u32 %r1, %r1, %zz;", "%zz"),
    ("bra NOWHERE;", "NOWHERE"),
    ("add.u32 %r1 %r1;", "expected ',' or ';'"),
    ("@%r1 bra X; X:", "a predicate register"),
    ("add.u32 %r1, %r1, 0x;", "."),
    ("X: X: ret;", "one label"),
    ("{ .reg .b32 q; mov.u32 q, 1; } mov.u32 %r1, q;", "q"),
    ("mov.u32 %r1, ?;", r"'\?'"),
])  # fmt: skip
def test_malformed_ptx_quotes_the_line(body: str, match: str) -> None:
    with pytest.raises(EmulatorError, match=match) as caught:
        Emulator(kernel(body)).program("test")
    assert isinstance(caught.value, (PtxSyntaxError, UnknownInstructionError))
    assert "ptx line" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        HEADER + ".visible .entry f(",
        HEADER + ".visible .entry f() { ret;",
        ".version 8.0\n.entry f() { ret; }",
    ],
)
def test_text_that_is_no_module(text: str) -> None:
    with pytest.raises(PtxSyntaxError):
        Emulator(text)


def test_inline_ptx_scopes_have_names_of_their_own() -> None:
    body = """
    mov.u32 %r1, 0;
    { .reg .pred p; .reg .b32 t; mov.u32 t, 5;
    L1: add.u32 %r1, %r1, t; setp.lt.u32 p, %r1, 20; @p bra L1; }
    { .reg .pred p; .reg .b32 t; mov.u32 t, 3;
    L1: add.u32 %r1, %r1, t; setp.lt.u32 p, %r1, 30; @p bra L1; }
    st.global.b32 [%a0], %r1;"""
    out = np.zeros(1, np.uint32)
    launch(body, [out], threads=1)
    assert out[0] == 32


def test_launches_that_do_not_fit() -> None:
    module = emulator(kernel("", declarations=TILE))
    one: list[Any] = [np.zeros(4)]

    def refuses(match: str, **options: Any) -> None:
        call: dict[str, Any] = {"grid": (1,), "block": (32,), "args": one, **options}
        with pytest.raises(LaunchError, match=match):
            module.launch("test", **call)

    refuses("expected 1 arguments", args=[])
    refuses("an array, scalar", args=["text"])
    refuses("8-byte integer", args=[2**64])
    refuses("an integer", args=[1.5])
    refuses("positive extents as grid", grid=(0,))
    refuses("at most 1024 threads", block=(1025,))
    refuses("multiple of the cluster", grid=(3,), cluster=(2,))
    refuses("shared memory", shared_bytes=300_000)
    refuses(
        "expected 128 bytes aligned|128 bytes",
        args=[TensorMap(np.zeros((8, 8), np.float16), box=(8, 8))],
    )
    with pytest.raises(LaunchError, match="expected a kernel of"):
        module.launch("other", grid=(1,), block=(1,), args=[])
    bounded = emulator(f"{HEADER}.visible .entry f() .maxntid 64, 1, 1 {{ ret; }}")
    with pytest.raises(LaunchError, match="maxntid"):
        bounded.launch("f", grid=(1,), block=(65,), args=[])
