# ruff: noqa: E501 - PTX keeps its lines
"""wgmma: descriptors of every canonical layout, element types, shapes, groups and their checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from emulator_support.harness import HEADER, emulator, stated
from emulator_support.tolerance import accumulation
from mirage.emulator import DescriptorError, MissingFenceError, MissingWaitError, OutOfBoundsError
from mirage.emulator.ops.swizzle import swizzled

Array = np.ndarray[Any, Any]
_NUMPY: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "s8": np.int8,
}
_DEPTH = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "s8": 32}
_MODE = {0: 0, 128: 1, 64: 2, 32: 3}
TILE = 16384
BASE = 1024  # of shared memory; the first operand is here, the second TILE bytes further


def lay_out(matrix: Array, span: int, transposed: bool) -> tuple[Array, int, int]:
    """Shared-memory image [TILE bytes] of an operand [extent, depth], with leading and stride offsets,
    written from the canonical layouts: 8x(16-byte) core matrices, or rows of `span` bytes in groups of 8."""
    extent, depth = matrix.shape
    size = matrix.itemsize
    image = np.zeros(TILE, np.uint8)
    view = image.view(matrix.dtype)
    per = 16 // size
    if not transposed:
        row_bytes = span or 16
        if span:
            leading, stride = 16, 8 * span
        else:
            leading, stride = 128, 128 * (depth // per)  # cores along K are neighbours
        for r in range(extent):
            for k in range(depth):
                byte = k * size
                if span:
                    at = r // 8 * stride + r % 8 * row_bytes + byte
                else:
                    at = r // 8 * stride + byte // 16 * leading + r % 8 * 16 + byte % 16
                view[int(swizzled(np.array(at, np.int64), span)) // size] = matrix[r, k]
        return image, leading, stride
    wide = (span or 16) // size
    if span:
        stride = 8 * span  # next 8 k
        leading = stride * (depth // 8)  # next `wide` rows
    else:
        leading = 128  # next 8 k
        stride = 128 * (depth // 8)  # next 8 rows
    for r in range(extent):
        for k in range(depth):
            outer = r // wide
            block = outer * (leading if span else stride) + k // 8 * (stride if span else leading)
            at = block + k % 8 * (span or 16) + r % wide * size
            view[int(swizzled(np.array(at, np.int64), span)) // size] = matrix[r, k]
    return image, leading, stride


def descriptor(offset: int, leading: int, stride: int, span: int) -> int:
    return (BASE + offset) >> 4 | (leading >> 4) << 16 | (stride >> 4) << 32 | _MODE[span] << 62


@dataclass(frozen=True)
class Wgmma:
    """A kernel of one wgmma, whose operands are copied into shared memory unchanged."""

    kind: str
    n: int
    trans: tuple[bool, bool]
    d: str = "f32"
    signs: str = "1, 1"
    fence: str = "wgmma.fence.sync.aligned;"
    wait: str = "wgmma.wait_group.sync.aligned 0;"
    scale: int = 0

    @property
    def words(self) -> int:
        """Return the registers of a thread's part of the result."""
        return self.n // 2 // (2 if self.d == "f16" else 1)

    @property
    def flags(self) -> str:
        """Signs and transpositions, for types that support them."""
        signs = f", {self.signs}" if self.kind != "s8" else ""
        turned = f", {int(self.trans[0])}, {int(self.trans[1])}"
        return signs + (turned if self.kind in ("f16", "bf16") else "")

    def text(self) -> str:
        registers = [f"%o{i}" for i in range(self.words)]
        one = 0x3F800000 if self.d == "f32" else 0
        init = " ".join(f"mov.b32 {r}, {one};" for r in registers)
        store = "\n".join(f"st.global.b32 [%d5+{4 * i}], {r};" for i, r in enumerate(registers))
        instruction = f"m64n{self.n}k{_DEPTH[self.kind]}.{self.d}.{self.kind}.{self.kind}"
        return f"""{HEADER}
.visible .entry test(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3) {{
.reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %d<9>; .reg .{"f32" if self.d == "f32" else "b32"} %o<128>; .shared .align 1024 .b8 tile[{2 * TILE}];
ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; ld.param.u64 %d6, [p2]; ld.param.u64 %d7, [p3];
mov.u32 %r1, %tid.x; mov.u32 %r2, tile; shl.b32 %r3, %r1, 4;
C: cvt.u64.u32 %d3, %r3; add.u64 %d3, %d3, %d1; ld.global.v4.b32 {{%r4, %r5, %r6, %r7}}, [%d3];
add.u32 %r8, %r2, %r3; st.shared.v4.b32 [%r8], {{%r4, %r5, %r6, %r7}};
add.u32 %r3, %r3, 2048; setp.lt.u32 %p1, %r3, {2 * TILE}; @%p1 bra C;
fence.proxy.async.shared::cta; bar.sync 0;
{init}
{self.fence}
setp.ne.u32 %p2, {self.scale}, 0;
wgmma.mma_async.sync.aligned.{instruction} {{{", ".join(registers)}}}, %d6, %d7, %p2{self.flags};
wgmma.commit_group.sync.aligned; {self.wait}
mul.wide.u32 %d5, %r1, {4 * self.words}; add.u64 %d5, %d5, %d2;
{store}
ret; }}
"""

    def result(self, out: Array) -> Array:
        """Return D [64, n] from the registers of all threads."""
        dtype: Any = {"f32": np.float32, "f16": np.float16, "s32": np.int32}[self.d]
        values = out.view(dtype)
        result = np.zeros((64, self.n), np.float64)
        for thread in range(128):
            warp, lane = divmod(thread, 32)
            for i in range(self.n // 2):
                row = 16 * warp + lane // 4 + 8 * (i // 2 % 2)
                result[row, 8 * (i // 4) + 2 * (lane % 4) + i % 2] = values[thread, i]
        return result


def run(
    kind: str,
    n: int,
    a: Array,
    b: Array,
    span: int,
    trans: tuple[bool, bool],
    *,
    change: int = 0,
    **options: Any,
) -> Array:
    """D of one wgmma; `change` is added to the descriptor of A, `options` are those of the kernel."""
    kernel = Wgmma(kind, n, trans, **options)
    image_a, *offsets_a = lay_out(a, span, trans[0])
    image_b, *offsets_b = lay_out(b, span, trans[1])
    out = np.zeros((128, kernel.words), np.uint32)
    args = [
        np.concatenate([image_a, image_b]),
        out,
        descriptor(0, *offsets_a, span) + change,
        descriptor(TILE, *offsets_b, span),
    ]
    bound, depth = None, _DEPTH[kind]
    if kernel.d != "s32":
        bound = accumulation(
            a, b.T, float(kernel.scale), element=kind, result=kernel.d, depth=depth
        )
    with stated(bound):
        emulator(kernel.text()).launch("test", grid=(1,), block=(128,), args=args)
    return kernel.result(out)


def operands(kind: str, n: int) -> tuple[Array, Array]:
    generator = np.random.default_rng(5)
    if kind == "s8":
        return tuple(generator.integers(-99, 99, (r, 32)).astype(np.int8) for r in (64, n))  # type: ignore[return-value]
    a, b = (generator.standard_normal((r, _DEPTH[kind])).astype(_NUMPY[kind]) for r in (64, n))
    if kind == "tf32":
        a, b = ((v.view(np.uint32) & 0xFFFFE000).view(np.float32) for v in (a, b))
    return a, b


def product(a: Array, b: Array) -> Array:
    return a.astype(np.float64) @ b.astype(np.float64).T


@pytest.mark.parametrize("span", [0, 32, 64, 128])
@pytest.mark.parametrize("trans", [(False, False), (True, False), (False, True), (True, True)])
def test_layouts(span: int, trans: tuple[bool, bool]) -> None:
    a, b = operands("f16", 64)
    np.testing.assert_array_equal(
        run("f16", 64, a, b, span, trans), product(a, b).astype(np.float32)
    )


@pytest.mark.parametrize(
    ("kind", "d"),
    [("bf16", "f32"), ("tf32", "f32"), ("e4m3", "f32"), ("s8", "s32"), ("f16", "f16")],
)
def test_element_types(kind: str, d: str) -> None:
    a, b = operands(kind, 32)
    expected = product(a, b)
    rounded = expected.astype(np.float16 if d == "f16" else np.float32)
    np.testing.assert_array_equal(run(kind, 32, a, b, 32, (False, False), d=d), rounded)


@pytest.mark.parametrize("n", [8, 24, 128, 256])
def test_widths(n: int) -> None:
    a, b = operands("f16", n)
    np.testing.assert_array_equal(
        run("f16", n, a, b, 32, (False, False)), product(a, b).astype(np.float32)
    )


def test_scale_and_signs() -> None:
    a, b = operands("f16", 16)
    np.testing.assert_array_equal(
        run("f16", 16, a, b, 32, (False, False), scale=1), (product(a, b) + 1).astype(np.float32)
    )
    np.testing.assert_array_equal(
        run("f16", 16, a, b, 32, (False, False), signs="-1, 1"), (-product(a, b)).astype(np.float32)
    )


def test_missing_fence_wait_and_bad_descriptor() -> None:
    a, b = operands("f16", 16)
    with pytest.raises(
        MissingFenceError, match=r"wgmma\.fence between the last write of register %o0"
    ):
        run("f16", 16, a, b, 32, (False, False), fence="")
    with pytest.raises(MissingWaitError, match=r"wgmma\.wait_group before register %o0"):
        run("f16", 16, a, b, 32, (False, False), wait="")
    with pytest.raises(MissingWaitError, match="register %o0"):
        run("f16", 16, a, b, 32, (False, False), wait="wgmma.wait_group.sync.aligned 1;")
    with pytest.raises(DescriptorError, match="base offset"):
        run("f16", 16, a, b, 32, (False, False), change=1 << 49)
    with pytest.raises(OutOfBoundsError, match="wgmma operand within shared addresses"):
        run("f16", 16, a, b, 32, (False, False), change=0x2FFF)


def test_missing_proxy_fence() -> None:
    a, b = operands("f16", 16)
    late = "setp.eq.u32 %p3, %r1, 0; @%p3 st.shared.b32 [%r2], %r1; bar.sync 0; wgmma.fence.sync.aligned;"
    with pytest.raises(MissingFenceError, match=r"fence.proxy.async between the write by warp 0"):
        run("f16", 16, a, b, 32, (False, False), fence=late)
