"""ldmatrix, stmatrix, movmatrix and mma.sync against the fragment tables of the PTX manual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from emulator_support.harness import launch, stated
from emulator_support.tolerance import accumulation

Array = np.ndarray[Any, Any]
Places = list[list[tuple[int, int]]]
"""[lane][element] -> (row, column)."""
_NUMPY: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "tf32": np.float32,
    "f64": np.float64,
    "s8": np.int8,
    "u8": np.uint8,
    "s32": np.int32,
}
_RANGES = ((0, 100), (0, 100), (-9, 9))
"""The ranges of the integers of A, B and C."""


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


def _positions(shape: tuple[int, int], per_word: int, kind: str) -> Places:
    """Transcribed from the manual's figures."""
    rows, columns = shape
    result: Places = []
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


_TYPED = {"f32": "%f", "f64": "%g"}
"""Return the registers of operands that are not untyped bits."""


@dataclass(frozen=True)
class Mma:
    """An instruction: its shape, and the types of D, of A and B, and of C."""

    shape: str
    d: str
    ab: str
    c: str

    @property
    def extents(self) -> tuple[int, int, int]:
        """Rows, columns and depth."""
        m, n, k = (int(v) for v in self.shape[1:].replace("n", " ").replace("k", " ").split())
        return m, n, k

    @property
    def word(self) -> int:
        """Bytes of a register that holds elements of an operand."""
        return 8 if self.ab == "f64" else 4

    def operands(self) -> tuple[Array, Array, Array]:
        """A, B and C."""
        rows, columns, depth = self.extents
        generator = np.random.default_rng(3)
        shapes = ((rows, depth), (depth, columns), (rows, columns))
        if self.ab in ("s8", "u8"):
            drawn = [generator.integers(*r, s) for r, s in zip(_RANGES, shapes, strict=True)]
        else:
            drawn = [generator.standard_normal(s) for s in shapes]
        dtypes = (_NUMPY[self.ab], _NUMPY[self.ab], _NUMPY[self.c])
        a, b, c = (x.astype(dtype) for x, dtype in zip(drawn, dtypes, strict=True))
        if self.ab == "tf32":
            a, b = ((v.view(np.uint32) & 0xFFFFE000).view(np.float32) for v in (a, b))
        return a, b, c

    def places(self) -> tuple[Places, Places, Places]:
        """Return which elements of A, of B, and of C and D each lane holds."""
        rows, columns, depth = self.extents
        per = max(1, 4 // np.dtype(_NUMPY[self.ab]).itemsize)
        return (
            _positions((rows, depth), per, "a"),
            _positions((depth, columns), per, "b"),
            _positions((rows, columns), 2, "c"),
        )

    def program(self, counts: Sequence[int], results: int) -> str:
        """Load the given numbers of words of the operands, lane by lane, and store those of the
        result."""
        word, bits = self.word, 8 * self.word
        held = "f64" if self.ab == "f64" else "bits"
        lines = [f"mul.wide.u32 %d55, %t, {word * sum(counts)}; add.u64 %d55, %d55, %a0;"]
        operands: list[str] = []
        first = 10
        for count, kind in zip(counts, (held, held, self.c), strict=True):
            loaded, names = (
                self._registers("bits", first, count),
                self._registers(kind, first, count),
            )
            at = word * (first - 10)
            lines += [
                f"ld.global.b{bits} {r}, [%d55+{at + word * i}];" for i, r in enumerate(loaded)
            ]
            if names != loaded:
                lines += [f"mov.b{bits} {n}, {r};" for n, r in zip(names, loaded, strict=True)]
            operands.append(", ".join(names))
            first += count
        stored = self._registers(self.d, 20 if self.d == "f64" else 100, results)
        lists = ", ".join(f"{{{each}}}" for each in (", ".join(stored), *operands))
        lines += [
            f"mma.sync.aligned.{self.shape}.row.col.{self.d}.{self.ab}.{self.ab}.{self.c} {lists};",
            f"mul.wide.u32 %d55, %t, {word * results}; add.u64 %d55, %d55, %a1;",
        ]
        kind = self.d if self.d in _TYPED else f"b{bits}"
        lines += [f"st.global.{kind} [%d55+{word * i}], {r};" for i, r in enumerate(stored)]
        return "\n".join(lines)

    def _registers(self, kind: str, first: int, count: int) -> list[str]:
        prefix = _TYPED.get(kind, "%d" if self.word == 8 else "%r")
        start = first - 10 if prefix == "%g" else first  # there are few of them
        return [f"{prefix}{start + i}" for i in range(count)]


CASES = [
    Mma("m16n8k16", "f32", "f16", "f32"), Mma("m16n8k16", "f32", "bf16", "f32"),
    Mma("m16n8k16", "f16", "f16", "f16"), Mma("m16n8k8", "f32", "f16", "f32"),
    Mma("m16n8k8", "f32", "bf16", "f32"), Mma("m16n8k8", "f32", "tf32", "f32"),
    Mma("m16n8k4", "f32", "tf32", "f32"), Mma("m16n8k32", "s32", "s8", "s32"),
    Mma("m16n8k16", "s32", "u8", "s32"), Mma("m8n8k4", "f64", "f64", "f64"),
]  # fmt: skip


@pytest.mark.parametrize("mma", CASES, ids=lambda mma: "-".join(astuple(mma)))
def test_mma(mma: Mma) -> None:
    rows, columns, depth = mma.extents
    a, b, c = mma.operands()
    places = mma.places()
    words = [_words_of_lanes(m, where) for m, where in zip((a, b, c), places, strict=True)]
    dtype = np.dtype(_NUMPY[mma.d])
    out = np.zeros((32, len(places[2][0]) * dtype.itemsize), np.uint8)
    body = mma.program([w.shape[1] // mma.word for w in words], out.shape[1] // mma.word)
    exact = mma.d == "s32"
    bound = None if exact else accumulation(a, b, c, element=mma.ab, result=mma.d, depth=depth)
    with stated(bound):
        stats = launch(body, [np.concatenate(words, axis=1), out]).stats
    assert stats.tensor_core_ops == rows * columns * depth
    got = np.zeros((rows, columns))
    for lane, values in enumerate(out.view(dtype)):
        for value, place in zip(values, places[2][lane], strict=True):
            got[place] = value
    expected = a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)
    if mma.d in ("s32", "f64"):
        np.testing.assert_allclose(got, expected, rtol=1e-14)
    else:
        np.testing.assert_array_equal(got, expected.astype(dtype).astype(np.float64))


def _words_of_lanes(matrix: Array, places: Places) -> Array:
    """Return the bytes of a matrix that each lane holds."""
    values = np.array([[matrix[p] for p in lane] for lane in places], matrix.dtype)
    return np.ascontiguousarray(values).view(np.uint8).reshape(32, -1)
