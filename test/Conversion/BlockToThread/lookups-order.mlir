// RUN: mirage-opt %s --mirage-flatten-tiles --mirage-assign-layouts --mirage-pipeline-loops --mirage-convert-block-to-thread --canonicalize --split-input-file | FileCheck %s
// RUN: %execute %s

// Blocks that look up the same rows of an expert's matrix, if several tokens chose this expert, run
// at the same time: tokens are the fastest digit.
// CHECK-LABEL: gpu.func @experts_0
// CHECK: %[[NUMBER:.*]] = gpu.block_id x
// CHECK-DAG: arith.remui %[[NUMBER]], %c4
// CHECK-DAG: arith.divui %[[NUMBER]], %c4
kernel.graph @experts(%w: tensor<3x64x32xf16>, %ids: tensor<4xi64>) -> tensor<4x64x32xf16> {
  %y = kernel.launch(%w, %ids) grid [b = 4, n = 2] schedule <warps = 1, stages = 1> : (tensor<3x64x32xf16>, tensor<4xi64>) -> tensor<4x64x32xf16> {
  ^bb0(%gw: tensor<3x64x32xf16>, %gi: tensor<4xi64>):
    %t = block.gather %gw, %gi [[b], [n], []] : tensor<3x64x32xf16>, tensor<4xi64> -> !block.tile<1x32x32xf16>
    %y = block.unary square %t : (!block.tile<1x32x32xf16>) -> !block.tile<1x32x32xf32>
    block.store %y [[b], [n], []] : !block.tile<1x32x32xf32>
  }
  kernel.return %y : tensor<4x64x32xf16>
}

// -----

// Pieces of a row that lie apart, such as a head of each token of a page, stay neighbours.
// CHECK-LABEL: gpu.func @heads_0
// CHECK: %[[NUMBER:.*]] = gpu.block_id x
// CHECK-DAG: arith.remui %[[NUMBER]], %c2
// CHECK-DAG: arith.divui %[[NUMBER]], %c2
kernel.graph @heads(%pages: tensor<5x16x64xf16>, %ids: tensor<4xi64>) -> tensor<4x16x64xf16> {
  %y = kernel.launch(%pages, %ids) grid [b = 4, h = 2] schedule <warps = 1, stages = 1> : (tensor<5x16x64xf16>, tensor<4xi64>) -> tensor<4x16x64xf16> {
  ^bb0(%gp: tensor<5x16x64xf16>, %gi: tensor<4xi64>):
    %t = block.gather %gp, %gi [[b], [], [h]] : tensor<5x16x64xf16>, tensor<4xi64> -> !block.tile<1x16x32xf16>
    %y = block.unary square %t : (!block.tile<1x16x32xf16>) -> !block.tile<1x16x32xf32>
    block.store %y [[b], [], [h]] : !block.tile<1x16x32xf32>
  }
  kernel.return %y : tensor<4x16x64xf16>
}
