"""Slices and joins outside of launches become kernels that copy; executed with all checks."""

from __future__ import annotations

import numpy as np
import pytest
from lowering import compile_mlir
from mirage.emulator.run_artifact import check_artifact
from thorough import some_of

Shape = tuple[int, ...]


def tensor(shape: Shape, dtype: str) -> str:
    return f"tensor<{'x'.join(map(str, shape))}x{dtype}>"


@pytest.mark.parametrize(
    ("shape", "offsets", "sizes"),
    [
        ((8,), (3,), (4,)),
        ((4, 8), (0, 4), (4, 4)),
        ((5, 1100), (1, 1), (3, 1031)),
        ((3, 7, 40), (1, 0, 0), (2, 7, 40)),
        ((3, 7, 40), (0, 2, 8), (3, 4, 17)),
        ((2, 3, 5, 4), (1, 1, 2, 0), (1, 2, 2, 4)),
        ((300, 64), (17, 0), (130, 1)),
    ],
)
@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_slice(shape: Shape, offsets: Shape, sizes: Shape, dtype: str) -> None:
    x, y = tensor(shape, dtype), tensor(sizes, dtype)
    text = f"""
kernel.graph @slice(%x: {x}) -> {y} {{
  %y = kernel.slice %x {list(offsets)} : ({x}) -> {y}
  kernel.return %y : {y}
}}"""
    part = tuple(slice(o, o + n) for o, n in zip(offsets, sizes, strict=True))
    check_artifact(compile_mlir(text), lambda a: (a[part],), tolerance=0)


@pytest.mark.parametrize(
    ("shapes", "dim"),
    some_of(
        [
            ([(3,), (4,), (1,)], 0),
            ([(4, 8), (4, 2)], 1),
            ([(2, 1024), (2, 1040), (2, 3)], 1),
            ([(3, 1024), (3, 907)], 1),
            ([(5, 33), (70, 33)], 0),
            ([(3, 2, 16), (3, 5, 16)], 1),
            ([(600, 2), (600, 1)], 1),
            ([(2, 3, 64)], 1),
        ],
        every=3,
    ),
)
@pytest.mark.parametrize("dtypes", ["f16", "f16 f32"])
def test_concat(shapes: list[Shape], dim: int, dtypes: str) -> None:
    cycle = dtypes.split()
    types = [tensor(s, cycle[i % len(cycle)]) for i, s in enumerate(shapes)]
    sizes = list(shapes[0])
    sizes[dim] = sum(s[dim] for s in shapes)
    result = tensor(tuple(sizes), cycle[-1] if len(shapes) > 1 else cycle[0])
    names = ", ".join(f"%x{i}" for i in range(len(shapes)))
    text = f"""
kernel.graph @join({", ".join(f"%x{i}: {t}" for i, t in enumerate(types))}) -> {result} {{
  %y = kernel.concat {names} dim {dim} : ({", ".join(types)}) -> {result}
  kernel.return %y : {result}
}}"""
    check_artifact(compile_mlir(text), lambda *xs: (np.concatenate(xs, axis=dim),), tolerance=0)


@pytest.mark.parametrize(
    ("part", "dims", "widths"),
    [
        ((2, 3, 5, 7), (2, 3), ((1, 2), (2, 1))),
        ((2, 70, 33), (1, 2), ((3, 1), (5, 7))),
        ((130, 9), (0, 1), ((2, 0), (1, 1))),
        ((4, 6, 40), (0, 2), ((1, 1), (8, 8))),
        ((3, 4, 5), (2, 1, 0), ((1, 1), (1, 2), (2, 1))),
    ],
)
def test_joins_of_joins_are_one_copy(part: Shape, dims: Shape, widths: tuple[Shape, ...]) -> None:
    """Each join puts tensors before and after the previous join; tiles that end inside the result
    write only their part."""
    shape, lines, given = list(part), [], [tensor(part, "f16")]
    name, count = "%x0", 1
    for dim, (before, after) in zip(dims, widths, strict=True):
        names, types = [], []
        for width in (before, None, after):
            if width is None:
                names.append(name)
                types.append(tensor(tuple(shape), "f16"))
            elif width:
                names.append(f"%x{count}")
                types.append(tensor((*shape[:dim], width, *shape[dim + 1 :]), "f16"))
                given.append(types[-1])
                count += 1
        shape[dim] += before + after
        name = f"%y{dim}"
        result = tensor(tuple(shape), "f16")
        joined = f"{', '.join(names)} dim {dim} : ({', '.join(types)})"
        lines.append(f"  {name} = kernel.concat {joined} -> {result}")
    inputs = ", ".join(f"%x{n}: {t}" for n, t in enumerate(given))
    text = "\n".join(
        [
            f"kernel.graph @joins({inputs}) -> {result} {{",
            *lines,
            f"  kernel.return {name} : {result}",
            "}",
        ]
    )

    def expected(x: np.ndarray, *others: np.ndarray) -> tuple[np.ndarray]:
        left = list(others)
        for dim, (before, after) in zip(dims, widths, strict=True):
            parts = [left.pop(0)] if before else []
            parts.append(x)
            parts += [left.pop(0)] if after else []
            x = np.concatenate(parts, axis=dim)
        return (x,)

    artifact = compile_mlir(text)
    assert len(artifact.manifest.kernels) == 1
    check_artifact(artifact, expected, tolerance=0)


@pytest.mark.parametrize(("start", "kernels"), [(4, 2), (3, 2)])
def test_rows_are_an_address_where_they_are_aligned(start: int, kernels: int) -> None:
    """4 rows of 6 halves are 48 bytes; 3 are 36, at which no kernel may read 16 bytes: it knows."""
    text = f"""
kernel.graph @rows(%x: tensor<20x6xf16>, %w: tensor<6x16xf16>) -> tensor<10x16xf16> {{
  %t = kernel.unary neg %x : (tensor<20x6xf16>) -> tensor<20x6xf16>
  %u = kernel.slice %t [{start}, 0] : (tensor<20x6xf16>) -> tensor<10x6xf16>
  %y = kernel.matmul %u, %w : (tensor<10x6xf16>, tensor<6x16xf16>) -> tensor<10x16xf16>
  kernel.return %y : tensor<10x16xf16>
}}"""
    artifact = compile_mlir(text)
    assert len(artifact.manifest.kernels) == kernels
    check_artifact(artifact, lambda x, w: (-x[start : start + 10] @ w,), tolerance=5e-3)


def test_between_launches() -> None:
    """The halves of a product, swapped, with the rounding of their launches."""
    text = """
kernel.graph @swap(%x: tensor<20x24xf16>, %w: tensor<24x34xf16>) -> tensor<20x34xf16> {
  %p = kernel.matmul %x, %w : (tensor<20x24xf16>, tensor<24x34xf16>) -> tensor<20x34xf16>
  %l = kernel.slice %p [0, 0] : (tensor<20x34xf16>) -> tensor<20x17xf16>
  %r = kernel.slice %p [0, 17] : (tensor<20x34xf16>) -> tensor<20x17xf16>
  %n = kernel.unary neg %l : (tensor<20x17xf16>) -> tensor<20x17xf16>
  %y = kernel.concat %r, %n dim 1 : (tensor<20x17xf16>, tensor<20x17xf16>) -> tensor<20x34xf16>
  kernel.return %y : tensor<20x34xf16>
}"""

    def expected(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, ...]:
        p = x @ w
        return (np.concatenate([p[:, 17:], -p[:, :17]], axis=1),)

    artifact = compile_mlir(text)
    assert len(artifact.manifest.kernels) == 4  # the right half is there already: it is copied
    check_artifact(artifact, expected, tolerance=5e-3)
