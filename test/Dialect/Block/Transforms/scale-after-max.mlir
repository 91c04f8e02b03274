// RUN: mirage-opt %s --mirage-legalize-tiles | FileCheck %s

// CHECK: %[[X:.*]] = block.load
// CHECK: %[[C:.*]] = block.constant 1.250000e-01
// CHECK: %[[R:.*]] = block.reduce max %[[X]] dims [1]
// CHECK: %[[M:.*]] = block.binary mul %[[R]], %[[C]]
// CHECK: %[[S:.*]] = block.binary mul %[[X]], %[[C]]
// CHECK: block.binary sub %[[S]], %[[M]]
// A negative factor reverses the order.
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

// Numbers that a positive factor does not change may be written before it; others may not.
// CHECK-LABEL: kernel.graph @masked
// CHECK: %[[X:.*]] = block.load
// CHECK: %[[C:.*]] = block.constant 1.250000e-01
// CHECK: %[[M:.*]] = block.mask %[[X]] dim 1 [n] extent 60 fill
// CHECK: %[[R:.*]] = block.reduce max %[[M]] dims [1]
// CHECK: block.binary mul %[[R]], %[[C]]
// CHECK: %[[S:.*]] = block.binary mul %[[X]], %[[C]]
// CHECK: %[[O:.*]] = block.mask %[[S]] dim 1 [n] extent 60 fill
// CHECK: block.reduce max %[[O]] dims [1]
kernel.graph @masked(%a: tensor<16x60xf32>) -> (tensor<16x2xf32>, tensor<16x2xf32>) {
  %r:2 = kernel.launch(%a) grid [n = 2] : (tensor<16x60xf32>) -> (tensor<16x2xf32>, tensor<16x2xf32>) {
  ^bb0(%ga: tensor<16x60xf32>):
    %x = block.load %ga [[], [n]] : tensor<16x60xf32> -> !block.tile<16x32xf32>
    %c = block.constant 1.25e-01 : !block.tile<f32>
    %s = block.binary mul %x, %c : (!block.tile<16x32xf32>, !block.tile<f32>) -> !block.tile<16x32xf32>
    %k = block.mask %s dim 1 [n] extent 60 fill 0xFFF0000000000000 : !block.tile<16x32xf32>
    %m = block.reduce max %k dims [1] : (!block.tile<16x32xf32>) -> !block.tile<16x1xf32>
    %t = block.binary mul %x, %c : (!block.tile<16x32xf32>, !block.tile<f32>) -> !block.tile<16x32xf32>
    %o = block.mask %t dim 1 [n] extent 60 fill 1.0 : !block.tile<16x32xf32>
    %p = block.reduce max %o dims [1] : (!block.tile<16x32xf32>) -> !block.tile<16x1xf32>
    block.store %m [[], [n]], %p [[], [n]] : !block.tile<16x1xf32>, !block.tile<16x1xf32>
  }
  kernel.return %r#0, %r#1 : tensor<16x2xf32>, tensor<16x2xf32>
}
