// RUN: mirage-opt %s --split-input-file --mirage-choose-engine --mirage-assign-layouts --mirage-pipeline-loops --mirage-convert-block-to-thread --canonicalize | FileCheck %s
// RUN: %execute %s

// Rows of 129 elements of 2 bytes start at any element, every eighth of them at a multiple of 16 bytes. The box of rows
// j, 8 + j, ... is one of rows of 8 * 129 elements.
// CHECK: kernel.invoke @rows_kernels::@rows_0
// CHECK-SAME: maps [#kernel.tensor_map<parameter = 0, box = [64, 64], swizzle = 128>, #kernel.tensor_map<parameter = 1, box = [64, 64], swizzle = 128>
// CHECK: gpu.func @rows_0(
// The loop begins j * 129 mod 8 elements before the rows, and ends with the last element.
// CHECK: %[[START:.*]] = arith.muli %[[J:.*]], %c129
// CHECK: %[[SHIFT:.*]] = arith.remui %[[START]], %c8
// CHECK: %[[END:.*]] = arith.addi %[[SHIFT]], %c192
// CHECK: %[[COUNT:.*]] = arith.divui %[[END]], %c64
// CHECK: scf.for %[[K:.*]] = %c0 to %[[COUNT]] step %c1
// CHECK: %[[FROM:.*]] = arith.muli %[[K]], %c64
// CHECK: %[[AT:.*]] = arith.subi %[[FROM]], %[[SHIFT]]
// CHECK: %[[ROW:.*]] = arith.muli %[[J]], %c129
// CHECK: %[[PLACE:.*]] = arith.addi %[[ROW]], %[[AT]]
// CHECK: %[[OTHER:.*]] = arith.subi %{{.*}}, %[[SHIFT]]
// CHECK: thread.ring_fill %{{.*}} step %[[K]] from %{{.*}}, %{{.*}} at %c0, %[[PLACE]], %[[OTHER]], %c0
// Readers overwrite the elements before the rows at the first step, and those after them at the last one.
// CHECK: thread.warps first 0 count 4
// CHECK: %[[COUNT:.*]] = arith.divui
// CHECK: scf.for %[[STEP:.*]] = %c0 to %[[COUNT]] step %c1
// CHECK: %[[TILES:.*]]:2 = thread.ring_wait
// CHECK: %[[LAST:.*]] = arith.subi %[[COUNT]], %c1
// CHECK-DAG: %[[ISLAST:.*]] = arith.cmpi eq, %[[STEP]], %[[LAST]]
// CHECK-DAG: %[[ISFIRST:.*]] = arith.cmpi eq, %[[STEP]], %c0
// CHECK: arith.ori %[[ISFIRST]], %[[ISLAST]]
// CHECK: scf.if
// CHECK: thread.load_shared %[[TILES]]#0
// CHECK: thread.mask %{{.*}} dim 1 at %[[PLACE:.*]] below extent 0 fill 0.000000e+00
// CHECK: thread.mask %{{.*}} dim 1 at %[[PLACE]] extent 129 fill 0.000000e+00
// CHECK: thread.store_shared %{{.*}}, %[[TILES]]#0
// CHECK: thread.fence async_proxy
// CHECK: thread.barrier
// CHECK: thread.wgmma %[[TILES]]#0, %[[TILES]]#1
kernel.graph @rows(%a: tensor<64x8x129xf16>, %b: tensor<129x64xf16>) -> tensor<64x8x64xf16> attributes {form = #kernel.form<selected>} {
  %r = kernel.launch(%a, %b) grid [j = 8] schedule <warps = 4, stages = 2, engine = warpgroup> : (tensor<64x8x129xf16>, tensor<129x64xf16>) -> tensor<64x8x64xf16> {
  ^bb0(%ga: tensor<64x8x129xf16>, %gb: tensor<129x64xf16>):
    %s = block.loop [k = 3] {
      %x = block.load %ga [[], [j], [k]] : tensor<64x8x129xf16> -> !block.tile<64x1x64xf16>
      %u = block.reshape %x : (!block.tile<64x1x64xf16>) -> !block.tile<64x64xf16>
      %y = block.load %gb [[k], []] : tensor<129x64xf16> -> !block.tile<64x64xf16>
      %p = block.matmul %u, %y : (!block.tile<64x64xf16>, !block.tile<64x64xf16>) -> !block.tile<64x64xf32>
      block.accumulate sum %p : !block.tile<64x64xf32>
    } : !block.tile<64x64xf32>
    %o = block.reshape %s : (!block.tile<64x64xf32>) -> !block.tile<64x1x64xf32>
    block.store %o [[], [j], []] : !block.tile<64x1x64xf32>
  }
  kernel.return %r : tensor<64x8x64xf16>
}

// -----

// The right factor's rows, of 130 elements: every fourth one starts at a multiple. The left factor is transposed.
// CHECK: kernel.invoke @columns_kernels::@columns_0
// CHECK-SAME: maps [#kernel.tensor_map<parameter = 0, box = [64, 64], swizzle = 128>, #kernel.tensor_map<parameter = 1, box = [32, 64], swizzle = 128>]
// CHECK: arith.muli %{{.*}}, %c130
// CHECK: thread.wgmma
kernel.graph @columns(%x: tensor<130x64xf16>, %w: tensor<32x4x130xf16>) -> tensor<64x32x4xf16> attributes {form = #kernel.form<selected>} {
  %r = kernel.launch(%x, %w) grid [j = 4] schedule <warps = 4, stages = 3, engine = warpgroup> : (tensor<130x64xf16>, tensor<32x4x130xf16>) -> tensor<64x32x4xf16> {
  ^bb0(%gx: tensor<130x64xf16>, %gw: tensor<32x4x130xf16>):
    %s = block.loop [k = 3] {
      %a = block.load %gx [[k], []] : tensor<130x64xf16> -> !block.tile<64x64xf16>
      %at = block.transpose %a [1, 0] : (!block.tile<64x64xf16>) -> !block.tile<64x64xf16>
      %b = block.load %gw [[], [j], [k]] : tensor<32x4x130xf16> -> !block.tile<32x1x64xf16>
      %c = block.reshape %b : (!block.tile<32x1x64xf16>) -> !block.tile<32x64xf16>
      %d = block.transpose %c [1, 0] : (!block.tile<32x64xf16>) -> !block.tile<64x32xf16>
      %p = block.matmul %at, %d : (!block.tile<64x64xf16>, !block.tile<64x32xf16>) -> !block.tile<64x32xf32>
      block.accumulate sum %p : !block.tile<64x32xf32>
    } : !block.tile<64x32xf32>
    %o = block.reshape %s : (!block.tile<64x32xf32>) -> !block.tile<64x32x1xf32>
    block.store %o [[], [], [j]] : !block.tile<64x32x1xf32>
  }
  kernel.return %r : tensor<64x32x4xf16>
}
