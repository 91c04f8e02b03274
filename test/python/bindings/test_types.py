"""Types and attributes of our dialects from Python."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from mirage import ir
from mirage.dialects import block, kernel, thread

LANES = [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)]


@pytest.fixture(autouse=True)
def context() -> Iterator[None]:
    with ir.Context(), ir.Location.unknown():
        yield


def reparse(thing: ir.Type | ir.Attribute) -> ir.Type | ir.Attribute:
    """Prints and parses; the result has the most specific Python class."""
    kind = ir.Type if isinstance(thing, ir.Type) else ir.Attribute
    return kind.parse(str(thing))


def test_tile() -> None:
    tile = reparse(block.TileType.get([16, 64], ir.F16Type.get()))
    assert isinstance(tile, block.TileType)
    assert tile.shape == (16, 64)
    assert tile.element_type == ir.F16Type.get()
    assert tile.layout is None
    assert tile.size_in_bytes == 2048


def test_tile_with_layout() -> None:
    layout = thread.LayoutAttr.get([(0, 1)], LANES)
    tile = block.TileType.get([8, 8], ir.F32Type.get(), layout=layout)
    assert tile.layout == layout


def test_scalar_tile() -> None:
    assert block.TileType.get([], ir.F32Type.get()).shape == ()


def test_bad_tile_says_what_is_expected() -> None:
    with pytest.raises(ir.MLIRError, match="got -1"):
        block.TileType.get([16, -1], ir.F16Type.get())


def test_layout() -> None:
    layout = reparse(thread.LayoutAttr.get([(0, 1), (8, 0)], LANES, repeat=(1, 3)))
    assert isinstance(layout, thread.LayoutAttr)
    assert layout.reg == [[0, 1], [8, 0]]
    assert layout.lane == [list(vector) for vector in LANES]
    assert layout.warp == []
    assert layout.repeat == [1, 3]


def test_bad_layout_is_an_error() -> None:
    with pytest.raises(ir.MLIRError, match="invalid layout"):
        thread.LayoutAttr.get([(3, 1)], LANES)


def test_fragment() -> None:
    layout = thread.LayoutAttr.get([(0, 1), (8, 0)], LANES, repeat=(1, 3))
    fragment = reparse(thread.FragmentType.get((16, 24), ir.F32Type.get(), layout))
    assert isinstance(fragment, thread.FragmentType)
    assert fragment.shape == (16, 24)
    assert fragment.layout == layout
    assert not fragment.partial


def test_shared_memory_barriers_and_tensor_maps() -> None:
    ring = reparse(thread.SharedType.get((3, 16, 24), ir.F16Type.get(), pad=8))
    assert isinstance(ring, thread.SharedType)
    assert (ring.shape, ring.swizzle, ring.pad) == ((3, 16, 24), 0, 8)
    assert ring.total_bytes == 3 * 16 * (24 + 8) * 2
    barrier = reparse(thread.MbarrierType.get(4))
    assert isinstance(barrier, thread.MbarrierType)
    assert barrier.count == 4
    tensor_map = reparse(thread.TensorMapType.get((128, 64), ir.F16Type.get(), swizzle=128))
    assert isinstance(tensor_map, thread.TensorMapType)
    assert (tensor_map.box, tensor_map.swizzle) == ((128, 64), 128)


def test_kernel_attributes() -> None:
    form = reparse(kernel.FormAttr.get(kernel.Form.Verified))
    assert isinstance(form, kernel.FormAttr)
    assert kernel.Form(form.value) is kernel.Form.Verified
    verdict = reparse(kernel.VerdictAttr.get(kernel.VerdictKind.Probable, -67, "3 draws"))
    assert isinstance(verdict, kernel.VerdictAttr)
    assert kernel.VerdictKind(verdict.kind) is kernel.VerdictKind.Probable
    assert (verdict.bound_log2, verdict.evidence) == (-67, "3 draws")
    assert kernel.VerdictAttr.get(kernel.VerdictKind.Proved).evidence is None
    schedule = reparse(kernel.ScheduleAttr.get(4, 3))
    assert isinstance(schedule, kernel.ScheduleAttr)
    assert (schedule.warps, schedule.stages, schedule.resident) == (4, 3, 0)
    schedule = reparse(kernel.ScheduleAttr.get(8, 4, True, 132))
    assert isinstance(schedule, kernel.ScheduleAttr)
    assert (schedule.warpgroups, schedule.resident) == (True, 132)
    with pytest.raises(ValueError, match="Form"):
        kernel.FormAttr.get(99)
    with pytest.raises(ir.MLIRError, match="invalid schedule"):
        kernel.ScheduleAttr.get(0, 1)
    with pytest.raises(ir.MLIRError, match="invalid schedule"):
        kernel.ScheduleAttr.get(4, 1, False, 132)


def test_ops_are_built_with_enums() -> None:
    module = ir.Module.create()
    tensor = ir.RankedTensorType.get([4, 8], ir.F16Type.get())
    with ir.InsertionPoint(module.body):
        graph = kernel.GraphOp("square", ir.TypeAttr.get(ir.FunctionType.get([tensor], [tensor])))
        body = graph.body.blocks.append(tensor)
        with ir.InsertionPoint(body):
            value = kernel.UnaryOp(tensor, kernel.UnaryFn.Square, body.arguments[0])
            kernel.ReturnOp([value.result])
    assert module.operation.verify()
    assert "kernel.unary square" in str(module)
    assert kernel.UnaryFn(value.fn.value) is kernel.UnaryFn.Square
