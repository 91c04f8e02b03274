// RUN: mirage-opt %s --mirage-legalize-tiles | FileCheck %s

// CHECK: %[[X:.*]] = block.load
// CHECK: %[[C:.*]] = block.constant 1.250000e-01
// CHECK: %[[R:.*]] = block.reduce max %[[X]] dims [1]
// CHECK: %[[M:.*]] = block.binary mul %[[R]], %[[C]]
// CHECK: %[[S:.*]] = block.binary mul %[[X]], %[[C]]
// CHECK: block.binary sub %[[S]], %[[M]]
// A factor below zero turns the order round.
// CHECK: %[[D:.*]] = block.constant -1.250000e-01
// CHECK: %[[T:.*]] = block.binary mul %[[X]], %[[D]]
// CHECK: block.reduce max %[[T]] dims [1]
kernel.graph @scores(%a: tensor<16x64xf32>) -> (tensor<16x64xf32>, tensor<16x1xf32>) {
  %r:2 = kernel.launch(%a) grid [] : (tensor<16x64xf32>) -> (tensor<16x64xf32>, tensor<16x1xf32>) {
  ^bb0(%ga: tensor<16x64xf32>):
    %x = block.load %ga [[], []] : tensor<16x64xf32> -> !block.tile<16x64xf32>
    %c = block.constant 1.25e-01 : !block.tile<f32>
    %s = block.binary mul %x, %c : (!block.tile<16x64xf32>, !block.tile<f32>) -> !block.tile<16x64xf32>
    %m = block.reduce max %s dims [1] : (!block.tile<16x64xf32>) -> !block.tile<16x1xf32>
    %y = block.binary sub %s, %m : (!block.tile<16x64xf32>, !block.tile<16x1xf32>) -> !block.tile<16x64xf32>
    %d = block.constant -1.25e-01 : !block.tile<f32>
    %t = block.binary mul %x, %d : (!block.tile<16x64xf32>, !block.tile<f32>) -> !block.tile<16x64xf32>
    %n = block.reduce max %t dims [1] : (!block.tile<16x64xf32>) -> !block.tile<16x1xf32>
    block.store %y [[], []], %n [[], []] : !block.tile<16x64xf32>, !block.tile<16x1xf32>
  }
  kernel.return %r#0, %r#1 : tensor<16x64xf32>, tensor<16x1xf32>
}
