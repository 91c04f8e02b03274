// Elements that a formula picks from the previous kernel's result are read after the wait.
// RUN: mirage-opt %s --mirage-flatten-tiles --mirage-assign-layouts --mirage-pipeline-loops --mirage-convert-block-to-thread --mirage-plan-shared-memory --canonicalize --mirage-overlap-launches | FileCheck %s
// RUN: %execute %s

// CHECK-LABEL: gpu.func @turned_1
// CHECK: thread.dependent_wait
// CHECK: thread.integers {{.*}} tables(
kernel.graph @turned(%x: tensor<4x12xi64>) -> tensor<4x12xi64> {
  %a = kernel.launch(%x) grid [r = 4] schedule <warps = 1, stages = 1> : (tensor<4x12xi64>) -> tensor<4x12xi64> {
  ^bb0(%gx: tensor<4x12xi64>):
    %t = block.load %gx [[r], []] : tensor<4x12xi64> -> !block.tile<1x12xi64>
    %c = block.cumulate sum %t dim 1 : (!block.tile<1x12xi64>) -> !block.tile<1x12xi64>
    block.store %c [[r], []] : !block.tile<1x12xi64>
  }
  %y = kernel.launch(%a) grid [r = 4] schedule <warps = 1, stages = 1> : (tensor<4x12xi64>) -> tensor<4x12xi64> {
  ^bb0(%gx: tensor<4x12xi64>):
    %t = block.integers %gx [[r], []] of [4, 12] ["table 2", "position 0 : i64", "position 1 : i64", "constant 11 : i64", "sub 3 2 : i64", "pick 0 1 4 : i64"] : (tensor<4x12xi64>) -> !block.tile<1x12xi64>
    block.store %t [[r], []] : !block.tile<1x12xi64>
  }
  kernel.return %y : tensor<4x12xi64>
}
