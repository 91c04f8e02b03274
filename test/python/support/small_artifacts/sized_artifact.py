"""A small artifact with a size, written by hand: y = 2 x, by two kernels with as many rows as
exist; x has two rows for each unit of the size, and y has one.
"""

from __future__ import annotations

from mirage.runtime.serialization.artifact import Artifact, sha256
from mirage.runtime.serialization.manifest import (
    Argument,
    KernelLaunch,
    Manifest,
    Module,
    TensorSpec,
    WorkspaceBuffer,
)
from mirage.runtime.serialization.sizes import Size

_KERNEL = """
.visible .entry {name}(.param .u64 a, .param .u64 b, .param .u32 n)
{{
  .reg .u64 %p<5>;
  .reg .u32 %i<7>;
  .reg .f32 %f<3>;
  .reg .pred %q;
  mov.u32 %i1, %ctaid.x;
  mov.u32 %i2, %ntid.x;
  mov.u32 %i3, %tid.x;
  mad.lo.u32 %i4, %i1, %i2, %i3;
  ld.param.u32 %i5, [n];
  mul.lo.u32 %i5, %i5, 8;
  setp.ge.u32 %q, %i4, %i5;
  @%q ret;
  mul.wide.u32 %p1, %i4, 4;
  ld.param.u64 %p2, [a];
  ld.param.u64 %p3, [b];
  add.u64 %p2, %p2, %p1;
  add.u64 %p3, %p3, %p1;
  ld.global.f32 %f1, [%p2];
  add.f32 %f2, %f1, {other};
  st.global.f32 [%p3], %f2;
  ret;
}}
"""

PTX = (
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    + _KERNEL.format(name="copy", other="0f00000000")
    + _KERNEL.format(name="twice", other="%f1")
)


def sized_artifact(most: int) -> Artifact:
    """For sizes up to ``most``; the first kernel is started with only the blocks that it needs."""
    ptx = PTX.encode()
    small = KernelLaunch(
        0, "copy", (2 * most, 1, 1), (4, 1, 1), 0,
        (Argument("input", 0), Argument("workspace", 0), Argument("size", 0)), rows=(2, 2),
    )  # fmt: skip
    whole = KernelLaunch(
        0, "twice", (most, 1, 1), (8, 1, 1), 0,
        (Argument("workspace", 0), Argument("output", 0), Argument("size", 0)),
    )  # fmt: skip
    manifest = Manifest(
        name="twice",
        compiler="mirage 0",
        chip="sm_80",
        ptx_version="7.0",
        inputs=(TensorSpec("x", (2 * most, 4), (4, 1), "f32"),),
        outputs=(TensorSpec("y", (most, 8), (8, 1), "f32"),),
        workspace=(WorkspaceBuffer("t", (2 * most, 4), "f32", 256),),
        modules=(Module("kernels.ptx", sha256(ptx)),),
        kernels=(small, whole),
        size=Size(most, most, (0,), (0,), (0,)),
    )
    return Artifact(manifest, {"kernels.ptx": ptx})
