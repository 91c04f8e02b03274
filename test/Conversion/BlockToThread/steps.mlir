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
// Copies ahead of the loop are made for steps that there are.
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
