// Blocks of 16 rows with a causal mask attend to keys up to their last row: of 4 steps of 16 keys, block m
// takes the first m + 1.
// RUN: mirage-opt %s --mirage-skip-steps | FileCheck %s
// RUN: mirage-opt %s --mirage-skip-steps | %execute - --meaning %s

// CHECK-DAG: #[[STEPS:.*]] = affine_map<(d0) -> (0, d0 + 1)>
// CHECK-DAG: #[[READ:.*]] = affine_map<()[s0] -> (0, (s0 + 15) floordiv 16)>
// CHECK: block.loop [k = 4] steps #[[STEPS]] of [m] {
// CHECK: block.loop [j = 4] {
kernel.graph @masked(%x: tensor<64x64xf32>) -> (tensor<64x1xf32>, tensor<64x1xf32>) {
  %y, %z = kernel.launch(%x) grid [m = 4] schedule <warps = 4, stages = 2> : (tensor<64x64xf32>) -> (tensor<64x1xf32>, tensor<64x1xf32>) {
  ^bb0(%gx: tensor<64x64xf32>):
    %row = block.iota dim 0 [m] extent 64 : !block.tile<16x1xf32>
    %a = block.loop [k = 4] {
      %t = block.load %gx [[m], [k]] : tensor<64x64xf32> -> !block.tile<16x16xf32>
      %col = block.iota dim 1 [k] extent 64 : !block.tile<1x16xf32>
      %seen = block.binary le %col, %row : (!block.tile<1x16xf32>, !block.tile<16x1xf32>) -> !block.tile<16x16xf32>
      %kept = block.binary keep %seen, %t : (!block.tile<16x16xf32>, !block.tile<16x16xf32>) -> !block.tile<16x16xf32>
      %r = block.reduce sum %kept dims [1] : (!block.tile<16x16xf32>) -> !block.tile<16x1xf32>
      block.accumulate sum %r : !block.tile<16x1xf32>
    } : !block.tile<16x1xf32>
    // Masked keys count here, too.
    %b = block.loop [j = 4] {
      %t = block.load %gx [[m], [j]] : tensor<64x64xf32> -> !block.tile<16x16xf32>
      %col = block.iota dim 1 [j] extent 64 : !block.tile<1x16xf32>
      %seen = block.binary le %col, %row : (!block.tile<1x16xf32>, !block.tile<16x1xf32>) -> !block.tile<16x16xf32>
      %one = block.constant 1.0 : !block.tile<f32>
      %more = block.binary add %seen, %one : (!block.tile<16x16xf32>, !block.tile<f32>) -> !block.tile<16x16xf32>
      %u = block.binary mul %more, %t : (!block.tile<16x16xf32>, !block.tile<16x16xf32>) -> !block.tile<16x16xf32>
      %r = block.reduce sum %u dims [1] : (!block.tile<16x16xf32>) -> !block.tile<16x1xf32>
      block.accumulate sum %r : !block.tile<16x1xf32>
    } : !block.tile<16x1xf32>
    block.store %a [[m], []], %b [[m], []] : !block.tile<16x1xf32>, !block.tile<16x1xf32>
  }
  kernel.return %y, %z : tensor<64x1xf32>, tensor<64x1xf32>
}

// Keys below a length that the caller passes, one for each row: the block reads it.
// CHECK-LABEL: kernel.graph @lengths
// CHECK: %[[N:.*]] = block.scalar max %{{.*}} {{\[}}[m], []] of [1, 1] within[-1, 64] : tensor<4x1xi64>
// CHECK: block.loop [k = 4] steps #[[READ]] of [] with(%[[N]]) {
kernel.graph @lengths(%x: tensor<4x64xf32>, %n: tensor<4x1xi64>) -> tensor<4x1xf32> {
  %y = kernel.launch(%x, %n) grid [m = 4] schedule <warps = 4, stages = 2> : (tensor<4x64xf32>, tensor<4x1xi64>) -> tensor<4x1xf32> {
  ^bb0(%gx: tensor<4x64xf32>, %gn: tensor<4x1xi64>):
    %length = block.load %gn [[m], []] : tensor<4x1xi64> -> !block.tile<1x1xf32>
    %a = block.loop [k = 4] {
      %t = block.load %gx [[m], [k]] : tensor<4x64xf32> -> !block.tile<1x16xf32>
      %col = block.iota dim 1 [k] extent 64 : !block.tile<1x16xf32>
      %seen = block.binary lt %col, %length : (!block.tile<1x16xf32>, !block.tile<1x1xf32>) -> !block.tile<1x16xf32>
      %kept = block.binary keep %seen, %t : (!block.tile<1x16xf32>, !block.tile<1x16xf32>) -> !block.tile<1x16xf32>
      %r = block.reduce sum %kept dims [1] : (!block.tile<1x16xf32>) -> !block.tile<1x1xf32>
      block.accumulate sum %r : !block.tile<1x1xf32>
    } : !block.tile<1x1xf32>
    block.store %a [[m], []] : !block.tile<1x1xf32>
  }
  kernel.return %y : tensor<4x1xf32>
}
