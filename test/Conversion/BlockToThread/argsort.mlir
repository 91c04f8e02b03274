// RUN: mirage-opt %s --mirage-flatten-tiles --mirage-assign-layouts --mirage-pipeline-loops --mirage-convert-block-to-thread --mirage-plan-shared-memory --canonicalize --split-input-file | FileCheck %s
// RUN: %execute %s

// A row that is divided among warps, which exchange elements and their places.
// CHECK-LABEL: gpu.func @row_0
// CHECK: thread.argsort %{{.*}} dim 1 size 300 {scratch = {{.*}}} : <1x512xf32, {{.*}} -> <1x512xi64,
kernel.graph @row(%x: tensor<2x300xf32>) -> tensor<2x300xi64> {
  %y = kernel.launch(%x) grid [r = 2] schedule <warps = 4, stages = 1> : (tensor<2x300xf32>) -> tensor<2x300xi64> {
  ^bb0(%gx: tensor<2x300xf32>):
    %t = block.load %gx [[r], []] : tensor<2x300xf32> -> !block.tile<1x300xf32>
    %p = block.argsort %t dim 1 : (!block.tile<1x300xf32>) -> !block.tile<1x300xi64>
    block.store %p [[r], []] : !block.tile<1x300xi64>
  }
  kernel.return %y : tensor<2x300xi64>
}

// -----

// Columns of integers; only the first places are stored.
// CHECK-LABEL: gpu.func @columns_0
// CHECK: thread.argsort descending %{{.*}} dim 0 size 40
kernel.graph @columns(%x: tensor<40x3xi16>) -> tensor<7x3xi64> {
  %y = kernel.launch(%x) grid [] schedule <warps = 2, stages = 1> : (tensor<40x3xi16>) -> tensor<7x3xi64> {
  ^bb0(%gx: tensor<40x3xi16>):
    %t = block.load %gx [[], []] : tensor<40x3xi16> -> !block.tile<40x3xi64>
    %p = block.argsort descending %t dim 0 : (!block.tile<40x3xi64>) -> !block.tile<40x3xi64>
    block.store %p [[], []] : !block.tile<40x3xi64>
  }
  kernel.return %y : tensor<7x3xi64>
}

// -----

// Several warps hold the same elements: one of them writes what the others read.
// CHECK-LABEL: gpu.func @copies_0
// CHECK: thread.argsort %{{.*}} dim 1 size 33
kernel.graph @copies(%x: tensor<1x33xf32>) -> tensor<1x33xi64> {
  %y = kernel.launch(%x) grid [] schedule <warps = 4, stages = 1> : (tensor<1x33xf32>) -> tensor<1x33xi64> {
  ^bb0(%gx: tensor<1x33xf32>):
    %t = block.load %gx [[], []] : tensor<1x33xf32> -> !block.tile<1x33xf32>
    %p = block.argsort %t dim 1 : (!block.tile<1x33xf32>) -> !block.tile<1x33xi64>
    block.store %p [[], []] : !block.tile<1x33xi64>
  }
  kernel.return %y : tensor<1x33xi64>
}
