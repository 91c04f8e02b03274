// RUN: mirage-opt %s --mirage-split-over-clusters --mirage-flatten-tiles --cse --mirage-assign-layouts --mirage-pipeline-loops --mirage-convert-block-to-thread --canonicalize --cse | FileCheck %s
// RUN: %execute %s --chip sm_90a

// The blocks of a row have consecutive numbers. They say at once that they have started, and wait for each other only
// when they have totals; maxima and the sums that belong to them are exchanged together.
// CHECK: kernel.invoke @running_kernels::@running_0(%{{.*}}) grid [24, 1, 1] block [64, 1, 1] cluster [4, 1, 1]
// CHECK: thread.cluster_arrive
// CHECK: %[[BLOCK:.*]] = gpu.block_id  x
// CHECK-DAG: arith.remui %[[BLOCK]], %c4
// CHECK-DAG: arith.divui %[[BLOCK]], %c4
// CHECK: %[[M:.*]] = thread.reduce max
// CHECK: %[[L:.*]] = thread.reduce sum
// CHECK: thread.cluster_wait
// CHECK: %[[ALL:.*]]:8 = thread.cluster_gather %[[M]], %[[L]] blocks 4
// CHECK: thread.binary max %[[ALL]]#0, %[[ALL]]#1
// CHECK: thread.binary max %[[ALL]]#2, %[[ALL]]#3
// CHECK: thread.binary mul %[[ALL]]#4
// CHECK-NOT: thread.cluster
kernel.graph @running(%x: tensor<6x256xf16>) -> tensor<6x256xf32> attributes {form = #kernel.form<selected>} {
  %y = kernel.launch(%x) grid [m = 6] schedule <warps = 2, stages = 1, cluster = 4> : (tensor<6x256xf16>) -> tensor<6x256xf32> {
  ^bb0(%gx: tensor<6x256xf16>):
    %m, %l = block.loop [part = 4] {
      %a = block.load %gx [[m], [part]] : tensor<6x256xf16> -> !block.tile<1x64xf16>
      %b = block.reduce max %a dims [1] : (!block.tile<1x64xf16>) -> !block.tile<1x1xf32>
      %u = block.running_max %b : !block.tile<1x1xf32>
      %c = block.binary sub %a, %u : (!block.tile<1x64xf16>, !block.tile<1x1xf32>) -> !block.tile<1x64xf32>
      %e = block.unary exp %c : (!block.tile<1x64xf32>) -> !block.tile<1x64xf32>
      %s = block.reduce sum %e dims [1] : (!block.tile<1x64xf32>) -> !block.tile<1x1xf32>
      block.accumulate last %u, sum %s rescale %u : !block.tile<1x1xf32>, !block.tile<1x1xf32> rescale : !block.tile<1x1xf32>
    } : !block.tile<1x1xf32>, !block.tile<1x1xf32>
    %t = block.load %gx [[m], []] : tensor<6x256xf16> -> !block.tile<1x256xf16>
    %d = block.binary sub %t, %m : (!block.tile<1x256xf16>, !block.tile<1x1xf32>) -> !block.tile<1x256xf32>
    %o = block.binary mul %d, %l : (!block.tile<1x256xf32>, !block.tile<1x1xf32>) -> !block.tile<1x256xf32>
    block.store %o [[m], []] : !block.tile<1x256xf32>
  }
  kernel.return %y : tensor<6x256xf32>
}
