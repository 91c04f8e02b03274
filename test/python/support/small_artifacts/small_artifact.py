"""A small artifact, written by hand: y = x + x by two kernels with a workspace in between."""

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

_KERNEL = """
.visible .entry {name}(.param .u64 a, .param .u64 b)
{{
  .reg .u64 %p<5>;
  .reg .u32 %i<5>;
  .reg .f32 %f<3>;
  mov.u32 %i1, %ctaid.x;
  mov.u32 %i2, %ntid.x;
  mov.u32 %i3, %tid.x;
  mad.lo.u32 %i4, %i1, %i2, %i3;
  mul.wide.u32 %p1, %i4, 4;
  ld.param.u64 %p2, [a];
  ld.param.u64 %p3, [b];
  add.u64 %p2, %p2, %p1;
  add.u64 %p3, %p3, %p1;
  ld.global.f32 %f1, [%p2];
  {op}
  st.global.f32 [%p3], %f2;
  ret;
}}
"""

PTX = (
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    + _KERNEL.format(name="copy", op="mov.f32 %f2, %f1;")
    + _KERNEL.format(name="twice", op="add.f32 %f2, %f1, %f1;")
)


def small_artifact(*, chip: str = "sm_80", shared_bytes: int = 0) -> Artifact:
    ptx = PTX.encode()
    launch = {"grid": (2, 1, 1), "block": (32, 1, 1), "shared_bytes": shared_bytes, "module": 0}
    manifest = Manifest(
        name="twice",
        compiler="mirage 0",
        chip=chip,
        ptx_version="7.0",
        inputs=(TensorSpec("x", (8, 8), (8, 1), "f32"),),
        outputs=(TensorSpec("y", (8, 8), (8, 1), "f32"),),
        workspace=(WorkspaceBuffer("t", (8, 8), "f32", 256),),
        modules=(Module("kernels.ptx", sha256(ptx)),),
        kernels=(
            KernelLaunch(
                entry="copy", arguments=(Argument("input", 0), Argument("workspace", 0)), **launch
            ),
            KernelLaunch(
                entry="twice", arguments=(Argument("workspace", 0), Argument("output", 0)), **launch
            ),
        ),
        evidence={"verdict": "proved"},
        prediction={"microseconds": 1.5},
    )
    return Artifact(manifest, {"kernels.ptx": ptx})
