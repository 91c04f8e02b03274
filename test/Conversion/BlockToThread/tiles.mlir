// RUN: mirage-opt %s --mirage-flatten-tiles --mirage-assign-layouts --mirage-pipeline-loops --mirage-convert-block-to-thread --canonicalize --split-input-file | FileCheck %s
// RUN: %execute %s

// The tile of 5 rows and 10 columns is held by a larger fragment; tensor and
// tile bounds are checked where the parts do not divide the tensor.
// CHECK-LABEL: gpu.func @tails_0
// CHECK: %[[ID:.*]] = gpu.block_id x
// CHECK-DAG: %[[COL:.*]] = arith.remui %[[ID]], %c3
// CHECK-DAG: %[[ROW:.*]] = arith.divui %[[ID]], %c3
// CHECK: thread.load_global %{{.*}} dims [0, 1] in_bounds [true, false] extents [5, 10]
// CHECK: thread.store_global {{.*}} in_bounds [true, false] extents [5, 10]
kernel.graph @tails(%x: tensor<10x29xf32>) -> tensor<10x29xf32> {
  %y = kernel.launch(%x) grid [r = 2, c = 3] schedule <warps = 1, stages = 1> : (tensor<10x29xf32>) -> tensor<10x29xf32> {
  ^bb0(%gx: tensor<10x29xf32>):
    %t = block.load %gx [[r], [c]] : tensor<10x29xf32> -> !block.tile<5x10xf32>
    %u = block.unary exp %t : (!block.tile<5x10xf32>) -> !block.tile<5x10xf32>
    block.store %u [[r], [c]] : !block.tile<5x10xf32>
  }
  kernel.return %y : tensor<10x29xf32>
}

// -----

// One of the blocks that hold the same tile stores it; a vector parameter gets
// a second dimension.
// CHECK-LABEL: gpu.func @replicated_0
// CHECK-SAME: (%{{.*}}: memref<1x64xf16>, %{{.*}}: memref<1x1xf32>, %{{.*}}: memref<4x64xf16>)
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %{{.*}}, %c0
// CHECK: thread.store_global {{.*}} when %[[FIRST]]{{.*}} memref<1x1xf32>
// CHECK: thread.store_global
// CHECK-NOT: when
// CHECK: gpu.return
kernel.graph @replicated(%x: tensor<64xf16>) -> (tensor<1xf32>, tensor<4x64xf16>) {
  %s, %y = kernel.launch(%x) grid [r = 4] schedule <warps = 1, stages = 1> : (tensor<64xf16>) -> (tensor<1xf32>, tensor<4x64xf16>) {
  ^bb0(%gx: tensor<64xf16>):
    %t = block.load %gx [[]] : tensor<64xf16> -> !block.tile<64xf16>
    %s = block.reduce sum %t dims [0] : (!block.tile<64xf16>) -> !block.tile<1xf32>
    %b = block.broadcast %t : (!block.tile<64xf16>) -> !block.tile<1x64xf16>
    block.store %s [[]], %b [[r], []] : !block.tile<1xf32>, !block.tile<1x64xf16>
  }
  kernel.return %s, %y : tensor<1xf32>, tensor<4x64xf16>
}

// -----

// Parts along a dimension that is neither rows nor columns may lie outside of
// the tensor: then all rows do, for loads, copies and stores.
// CHECK-LABEL: gpu.func @outside_0
// CHECK: scf.for
// CHECK: %[[IN:.*]] = arith.cmpi ult, %[[PART:.*]], %c3
// CHECK: %[[ROW:.*]] = arith.select %[[IN]], %c0, %c16
// CHECK: thread.copy_async %{{.*}}[%[[PART]], %[[ROW]], %c0] dims [1, 2] in_bounds [false, true]
// CHECK: thread.load_global {{.*}} in_bounds [false, true]
// CHECK: thread.store_global {{.*}} in_bounds [false, true]
kernel.graph @outside(%x: tensor<3x16x32xf16>, %w: tensor<3x32x8xf16>, %v: tensor<3x16x8xf16>) -> tensor<3x16x8xf32> {
  %y = kernel.launch(%x, %w, %v) grid [b = 4] schedule <warps = 1, stages = 2> : (tensor<3x16x32xf16>, tensor<3x32x8xf16>, tensor<3x16x8xf16>) -> tensor<3x16x8xf32> {
  ^bb0(%gx: tensor<3x16x32xf16>, %gw: tensor<3x32x8xf16>, %gv: tensor<3x16x8xf16>):
    %s = block.loop [k = 5] {
      %tx = block.load %gx [[k], [], []] : tensor<3x16x32xf16> -> !block.tile<1x16x32xf16>
      %tw = block.load %gw [[k], [], []] : tensor<3x32x8xf16> -> !block.tile<1x32x8xf16>
      %tv = block.load %gv [[k], [], []] : tensor<3x16x8xf16> -> !block.tile<1x16x8xf16>
      %p = block.matmul %tx, %tw : (!block.tile<1x16x32xf16>, !block.tile<1x32x8xf16>) -> !block.tile<1x16x8xf32>
      %q = block.binary add %p, %tv : (!block.tile<1x16x8xf32>, !block.tile<1x16x8xf16>) -> !block.tile<1x16x8xf32>
      block.accumulate sum %q : !block.tile<1x16x8xf32>
    } : !block.tile<1x16x8xf32>
    block.store %s [[b], [], []] : !block.tile<1x16x8xf32>
  }
  kernel.return %y : tensor<3x16x8xf32>
}
