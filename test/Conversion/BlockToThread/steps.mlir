// A loop that leaves out steps: they follow from the block's position. There is always one.
// RUN: mirage-opt %s --mirage-assign-layouts --mirage-pipeline-loops --mirage-convert-block-to-thread --canonicalize | FileCheck %s
// RUN: %execute %s

// CHECK: gpu.func @sums_0
// The axis along which the steps grow is walked backwards: the longest blocks come first.
// CHECK: %[[B:.*]] = gpu.block_id x
// CHECK: %[[M:.*]] = arith.subi %c3, %[[B]]
// CHECK: %[[FIRST:.*]] = arith.minsi
// CHECK: %[[LEAST:.*]] = arith.addi %[[FIRST]], %c1
// CHECK: %[[END:.*]] = arith.minsi %{{.*}}, %c8
// Copies ahead of the loop are made only for existing steps.
// CHECK: thread.copy_async
// CHECK: %[[NEXT:.*]] = arith.addi %[[FIRST]], %c1
// CHECK: %[[EXISTS:.*]] = arith.cmpi ult, %[[NEXT]], %[[END]]
// CHECK: thread.copy_async {{.*}} when %[[EXISTS]]
// CHECK: scf.for %{{.*}} = %[[FIRST]] to %[[END]]
kernel.graph @sums(%x: tensor<64x64xf32>) -> tensor<4x64xf32> attributes {form = #kernel.form<scheduled>} {
  %y = kernel.launch(%x) grid [m = 4] schedule <warps = 4, stages = 3> : (tensor<64x64xf32>) -> tensor<4x64xf32> {
  ^bb0(%gx: tensor<64x64xf32>):
    %a = block.loop [k = 8] steps affine_map<(d0) -> (d0 - 1, (d0 * 5) floordiv 2)> of [m] {
      %t = block.load %gx [[k], []] : tensor<64x64xf32> -> !block.tile<8x64xf32>
      %r = block.reduce sum %t dims [0] : (!block.tile<8x64xf32>) -> !block.tile<1x64xf32>
      block.accumulate sum %r : !block.tile<1x64xf32>
    } : !block.tile<1x64xf32>
    block.store %a [[m], []] : !block.tile<1x64xf32>
  }
  kernel.return %y : tensor<4x64xf32>
}

// If the steps depend on integers, the block reads them once, before anything else, and clamps them to their
// bounds before it uses them.
// CHECK: gpu.func @read_0
// CHECK: %[[N0:.*]] = memref.load %{{.*}} : memref<4x1xi64>
// CHECK: %[[N1:.*]] = memref.load %{{.*}} : memref<4x1xi64>
// CHECK: %[[N:.*]] = arith.maxsi %[[N0]], %[[N1]] : i64
// CHECK: %[[LOW:.*]] = arith.maxsi %[[N]], %c0_i64
// CHECK: %[[HIGH:.*]] = arith.minsi %[[LOW]], %c64_i64
// CHECK: %[[READ:.*]] = arith.index_cast %[[HIGH]] : i64 to index
// CHECK: %[[SUM:.*]] = arith.addi %[[READ]], %c7
// CHECK: scf.for %{{.*}} = %c0 to %
kernel.graph @read(%x: tensor<4x64xf32>, %n: tensor<4x1xi64>) -> tensor<4x1xf32> attributes {form = #kernel.form<scheduled>} {
  %y = kernel.launch(%x, %n) grid [b = 2] schedule <warps = 2, stages = 2> : (tensor<4x64xf32>, tensor<4x1xi64>) -> tensor<4x1xf32> {
  ^bb0(%gx: tensor<4x64xf32>, %gn: tensor<4x1xi64>):
    %l = block.scalar max %gn [[b], []] of [2, 1] within [0, 64] : tensor<4x1xi64>
    %a = block.loop [k = 8] steps affine_map<()[s0] -> (0, (s0 + 7) floordiv 8)> of [] with (%l) {
      %t = block.load %gx [[b], [k]] : tensor<4x64xf32> -> !block.tile<2x8xf32>
      %r = block.reduce sum %t dims [1] : (!block.tile<2x8xf32>) -> !block.tile<2x1xf32>
      block.accumulate sum %r : !block.tile<2x1xf32>
    } : !block.tile<2x1xf32>
    block.store %a [[b], []] : !block.tile<2x1xf32>
  }
  kernel.return %y : tensor<4x1xf32>
}
