// RUN: mirage-opt %s --mirage-flatten-tiles --mirage-assign-layouts --mirage-pipeline-loops --mirage-convert-block-to-thread --mirage-plan-shared-memory --canonicalize --split-input-file | FileCheck %s
// RUN: %execute %s

// A row is longer than a warp can hold: its warps exchange the totals before each of them.
// CHECK-LABEL: gpu.func @long_0
// CHECK: thread.cumulate sum %{{.*}} dim 1 {scratch = {{.*}}} : <1x2048xf32,
kernel.graph @long(%x: tensor<2x2000xf16>) -> tensor<2x2000xf32> {
  %y = kernel.launch(%x) grid [r = 2] schedule <warps = 4, stages = 1> : (tensor<2x2000xf16>) -> tensor<2x2000xf32> {
  ^bb0(%gx: tensor<2x2000xf16>):
    %t = block.load %gx [[r], []] : tensor<2x2000xf16> -> !block.tile<1x2000xf16>
    %c = block.cumulate sum %t dim 1 : (!block.tile<1x2000xf16>) -> !block.tile<1x2000xf32>
    block.store %c [[r], []] : !block.tile<1x2000xf32>
  }
  kernel.return %y : tensor<2x2000xf32>
}

// -----

// Of three dimensions the two larger than 1 are rows and columns.
// CHECK-LABEL: gpu.func @columns_0
// CHECK: thread.cumulate max exclusive %{{.*}} dim 0
kernel.graph @columns(%x: tensor<12x3x40xf32>) -> tensor<12x3x40xf32> {
  %y = kernel.launch(%x) grid [r = 3] schedule <warps = 2, stages = 1> : (tensor<12x3x40xf32>) -> tensor<12x3x40xf32> {
  ^bb0(%gx: tensor<12x3x40xf32>):
    %t = block.load %gx [[], [r], []] : tensor<12x3x40xf32> -> !block.tile<12x1x40xf32>
    %c = block.cumulate max exclusive %t dim 0 : (!block.tile<12x1x40xf32>) -> !block.tile<12x1x40xf32>
    %z = block.unary relu %c : (!block.tile<12x1x40xf32>) -> !block.tile<12x1x40xf32>
    block.store %z [[], [r], []] : !block.tile<12x1x40xf32>
  }
  kernel.return %y : tensor<12x3x40xf32>
}

// -----

// Elements beyond the end of a row have no effect on products from the other end.
// CHECK-LABEL: gpu.func @products_0
// CHECK: thread.cumulate prod reversed %{{.*}} dim 1
kernel.graph @products(%x: tensor<2x37xf32>) -> tensor<2x37xf32> {
  %y = kernel.launch(%x) grid [r = 2] schedule <warps = 1, stages = 1> : (tensor<2x37xf32>) -> tensor<2x37xf32> {
  ^bb0(%gx: tensor<2x37xf32>):
    %t = block.load %gx [[r], []] : tensor<2x37xf32> -> !block.tile<1x37xf32>
    %c = block.cumulate prod reversed %t dim 1 : (!block.tile<1x37xf32>) -> !block.tile<1x37xf32>
    block.store %c [[r], []] : !block.tile<1x37xf32>
  }
  kernel.return %y : tensor<2x37xf32>
}
