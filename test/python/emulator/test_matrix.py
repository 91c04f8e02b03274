# ruff: noqa: E501 - PTX keeps its lines
"""ldmatrix, stmatrix, movmatrix and mma.sync against the fragment tables of the PTX manual."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from emulator_support.harness import launch, stated
from emulator_support.tolerance import accumulation

Array = np.ndarray[Any, Any]
_NUMPY: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "tf32": np.float32,
    "f64": np.float64,
    "s8": np.int8,
    "u8": np.uint8,
    "s32": np.int32,
    "e4m3": ml_dtypes.float8_e4m3fn,
}


def _store_words(words: int, first: int = 100) -> str:
    lines = [f"mul.wide.u32 %d50, %t, {4 * words}; add.u64 %d50, %d50, %a1;"]
    lines += [f"st.global.b32 [%d50+{4 * i}], %r{first + i};" for i in range(words)]
    return "\n".join(lines)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
def test_ldmatrix(count: int, transposed: bool) -> None:
    matrices = np.random.default_rng(1).integers(0, 2**16, (4, 8, 8)).astype(np.uint16)
    out = np.zeros((32, count), np.uint32)
    registers = ", ".join(f"%r{100 + i}" for i in range(count))
    trans = ".trans" if transposed else ""
    body = f"""
    mov.u32 %r1, tile; shl.b32 %r2, %t, 4; add.u32 %r3, %r1, %r2; mul.wide.u32 %d1, %t, 16;
    add.u64 %d1, %d1, %a0; ld.global.v4.b32 {{%r4, %r5, %r6, %r7}}, [%d1];
    st.shared.v4.b32 [%r3], {{%r4, %r5, %r6, %r7}}; bar.sync 0;
    ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{registers}}}, [%r3];
    {_store_words(count)}"""
    stats = launch(body, [matrices, out], declarations=".shared .align 16 .b8 tile[512];").stats
    for lane in range(32):
        for j in range(count):
            tile = matrices[j].T if transposed else matrices[j]
            low, high = tile[lane // 4, 2 * (lane % 4)], tile[lane // 4, 2 * (lane % 4) + 1]
            assert out[lane, j] == int(high) << 16 | int(low)
    assert stats.bank_conflicts == 0


@pytest.mark.parametrize("transposed", [False, True])
def test_stmatrix_is_the_inverse_of_ldmatrix(transposed: bool) -> None:
    fragments = np.random.default_rng(2).integers(0, 2**32, (32, 4)).astype(np.uint32)
    out = np.zeros((32, 4), np.uint32)
    trans = ".trans" if transposed else ""
    body = f"""
    mov.u32 %r1, tile; shl.b32 %r2, %t, 4; add.u32 %r3, %r1, %r2; mul.wide.u32 %d1, %t, 16;
    add.u64 %d1, %d1, %a0; ld.global.v4.b32 {{%r4, %r5, %r6, %r7}}, [%d1];
    stmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 [%r3], {{%r4, %r5, %r6, %r7}}; bar.warp.sync -1;
    ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%r100, %r101, %r102, %r103}}, [%r3];
    {_store_words(4)}"""
    launch(body, [fragments, out], declarations=".shared .align 16 .b8 tile[512];")
    np.testing.assert_array_equal(out, fragments)


def test_movmatrix_transposes() -> None:
    words = np.arange(32, dtype=np.uint32) * 3
    words = (words + 1) << 16 | words
    out = np.zeros((32, 1), np.uint32)
    body = f"""
    mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %a0; ld.global.b32 %r1, [%d1];
    movmatrix.sync.aligned.m8n8.trans.b16 %r100, %r1;
    {_store_words(1)}"""
    launch(body, [words, out])
    np.testing.assert_array_equal(
        out.view(np.uint16).reshape(8, 8), words.view(np.uint16).reshape(8, 8).T
    )


def _positions(shape: tuple[int, int], per_word: int, kind: str) -> list[list[tuple[int, int]]]:
    """[lane][element] -> (row, column), transcribed from the manual's figures."""
    rows, columns = shape
    result: list[list[tuple[int, int]]] = []
    for lane in range(32):
        group, thread = lane // 4, lane % 4
        elements: list[tuple[int, int]] = []
        if kind == "a":
            for across in range(columns // (4 * per_word)):
                for down in range(rows // 8):
                    elements += [
                        (group + 8 * down, thread * per_word + e + across * 4 * per_word)
                        for e in range(per_word)
                    ]
        elif kind == "b":
            for down in range(rows // (4 * per_word)):
                elements += [
                    (thread * per_word + e + down * 4 * per_word, group) for e in range(per_word)
                ]
        else:
            for down in range(rows // 8):
                elements += [(group + 8 * down, 2 * thread + e) for e in range(2)]
        result.append(elements)
    return result


CASES = [
    ("m16n8k16", "f32", "f16", "f32"), ("m16n8k16", "f32", "bf16", "f32"), ("m16n8k16", "f16", "f16", "f16"),
    ("m16n8k8", "f32", "f16", "f32"), ("m16n8k8", "f32", "bf16", "f32"), ("m16n8k8", "f32", "tf32", "f32"),
    ("m16n8k4", "f32", "tf32", "f32"), ("m16n8k32", "s32", "s8", "s32"), ("m16n8k16", "s32", "u8", "s32"),
    ("m8n8k4", "f64", "f64", "f64"),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "d", "ab", "c"), CASES)
def test_mma(shape: str, d: str, ab: str, c: str) -> None:
    rows, columns, depth = (int(v) for v in shape[1:].replace("n", " ").replace("k", " ").split())
    generator = np.random.default_rng(3)
    dtype_ab, dtype_c, dtype_d = _NUMPY[ab], _NUMPY[c], _NUMPY[d]
    if ab in ("s8", "u8"):
        a = generator.integers(0, 100, (rows, depth)).astype(dtype_ab)
        b = generator.integers(0, 100, (depth, columns)).astype(dtype_ab)
        accumulator = generator.integers(-9, 9, (rows, columns)).astype(dtype_c)
    else:
        a = generator.standard_normal((rows, depth)).astype(dtype_ab)
        b = generator.standard_normal((depth, columns)).astype(dtype_ab)
        accumulator = generator.standard_normal((rows, columns)).astype(dtype_c)
        if ab == "tf32":
            a, b = ((v.view(np.uint32) & 0xFFFFE000).view(np.float32) for v in (a, b))
    expected = a.astype(np.float64) @ b.astype(np.float64) + accumulator.astype(np.float64)
    size = np.dtype(dtype_ab).itemsize
    per = max(1, 4 // size)
    word = 8 if size == 8 else 4
    places = [
        _positions((rows, depth), per, "a"),
        _positions((depth, columns), per, "b"),
        _positions((rows, columns), 2, "c"),
    ]
    packed = [
        np.array([[m[p] for p in lane] for lane in where], m.dtype)
        for m, where in zip((a, b, accumulator), places, strict=True)
    ]
    words = [np.ascontiguousarray(p).view(np.uint8).reshape(32, -1) for p in packed]
    source = np.concatenate(words, axis=1)
    count = [w.shape[1] // word for w in words]
    out_words = len(places[2][0]) * np.dtype(dtype_d).itemsize // word
    out = np.zeros((32, out_words * word), np.uint8)
    reg = "%d" if word == 8 else "%r"
    move = f"mul.wide.u32 %d55, %t, {source.shape[1]}; add.u64 %d55, %d55, %a0;\n"
    move += "\n".join(
        f"ld.global.b{8 * word} {reg}{10 + i}, [%d55+{word * i}];" for i in range(sum(count))
    )
    typed = {"f32": "%f", "f64": "%g"}
    # f32 accumulators live in .f32 registers, f64 operands in .f64 ones.
    names: list[list[str]] = []
    start = 10
    for n, kind in zip(
        count, ("f64" if ab == "f64" else "b", "f64" if ab == "f64" else "b", c), strict=True
    ):
        prefix = typed.get(kind, reg)
        names.append(
            [f"{prefix}{start + i}" if prefix != "%g" else f"%g{start - 10 + i}" for i in range(n)]
        )
        if prefix != reg:
            move += "\n" + "\n".join(
                f"mov.b{8 * word} {names[-1][i]}, {reg}{start + i};" for i in range(n)
            )
        start += n
    prefix = typed.get(d, reg)
    results = [f"{prefix}{(100 if prefix != '%g' else 10) + i}" for i in range(out_words)]
    op = f"mma.sync.aligned.{shape}.row.col.{d}.{ab}.{ab}.{c}"
    lists = ["{" + ", ".join(v) + "}" for v in (results, *names)]
    body = f"""
    {move}
    {op} {lists[0]}, {lists[1]}, {lists[2]}, {lists[3]};
    mul.wide.u32 %d55, %t, {out_words * word}; add.u64 %d55, %d55, %a1;
    """ + "\n".join(
        f"st.global.{d if d in typed else f'b{8 * word}'} [%d55+{word * i}], {r};"
        for i, r in enumerate(results)
    )
    bound = None
    if d != "s32":
        bound = accumulation(a, b, accumulator, element=ab, result=d, depth=depth)
    with stated(bound):
        stats = launch(body, [source, out]).stats
    assert stats.tensor_core_ops == rows * columns * depth
    values = out.view(dtype_d).reshape(32, -1)
    got = np.zeros((rows, columns))
    for lane in range(32):
        for i, place in enumerate(places[2][lane]):
            got[place] = values[lane, i]
    if d in ("s32", "f64"):
        np.testing.assert_allclose(got, expected, rtol=1e-14)
    else:
        np.testing.assert_array_equal(got, expected.astype(dtype_d).astype(np.float64))
