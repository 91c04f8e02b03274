// RUN: mirage-opt %s --mirage-choose-engine --mirage-assign-layouts --mirage-pipeline-loops --mirage-convert-block-to-thread --canonicalize | FileCheck %s
// RUN: %execute %s

// Pairs of blocks are neighbours along n, for the tiles of a are the larger ones: each copies half of their rows for
// both, and all of its own tiles of b.
// CHECK: kernel.invoke @product_kernels::@product_0(%{{.*}}, %{{.*}}) grid [12, 1, 1] block [384, 1, 1] cluster [2, 1, 1]
// CHECK-SAME: #kernel.tensor_map<parameter = 0, box = [64, 64], swizzle = 128>, #kernel.tensor_map<parameter = 1, box = [64, 64], swizzle = 128>
// CHECK: %[[BLOCK:.*]] = gpu.block_id  x
// CHECK-DAG: %[[WITHIN:.*]] = arith.remui %[[BLOCK]], %c2
// CHECK-DAG: %[[PAIR:.*]] = arith.divui %[[BLOCK]], %c2
// CHECK: %[[FIRST:.*]] = arith.muli %{{.*}}, %c2
// CHECK: %[[COL:.*]] = arith.addi %[[FIRST]], %[[WITHIN]]
// CHECK: %[[RANK:.*]] = thread.cluster_rank
// CHECK: %[[RING:.*]] = thread.ring_create readers 8 cluster 2
// CHECK: thread.warps first 8 count 1
// CHECK: %[[ROW:.*]] = arith.muli %{{.*}}, %c128
// CHECK: %[[PART:.*]] = arith.muli %[[RANK]], %c64
// CHECK: %[[MINE:.*]] = arith.addi %[[ROW]], %[[PART]]
// CHECK: thread.ring_fill %[[RING]] step %{{.*}} from %{{.*}}, %{{.*}} at %[[MINE]], %{{.*}}, %{{.*}}, %{{.*}} shared [0]
kernel.graph @product(%a: tensor<384x192xf16>, %b: tensor<192x256xf16>) -> tensor<384x256xf16> attributes {form = #kernel.form<selected>} {
  %r = kernel.launch(%a, %b) grid [m = 3, n = 4] schedule <warps = 8, stages = 2, engine = warpgroup, cluster = 2> : (tensor<384x192xf16>, tensor<192x256xf16>) -> tensor<384x256xf16> {
  ^bb0(%ga: tensor<384x192xf16>, %gb: tensor<192x256xf16>):
    %s = block.loop [k = 3] {
      %x = block.load %ga [[m], [k]] : tensor<384x192xf16> -> !block.tile<128x64xf16>
      %y = block.load %gb [[k], [n]] : tensor<192x256xf16> -> !block.tile<64x64xf16>
      %p = block.matmul %x, %y : (!block.tile<128x64xf16>, !block.tile<64x64xf16>) -> !block.tile<128x64xf32>
      block.accumulate sum %p : !block.tile<128x64xf32>
    } : !block.tile<128x64xf32>
    %o = block.cast %s : (!block.tile<128x64xf32>) -> !block.tile<128x64xf16>
    block.store %o [[m], [n]] : !block.tile<128x64xf16>
  }
  kernel.return %r : tensor<384x256xf16>
}
