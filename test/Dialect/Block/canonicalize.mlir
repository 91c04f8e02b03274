// RUN: mirage-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: kernel.graph @identities
kernel.graph @identities(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // CHECK: kernel.launch
  %y = kernel.launch(%x) grid [m = 2] : (tensor<8x4xf32>) -> tensor<8x4xf32> {
  ^bb0(%gx: tensor<8x4xf32>):
    // CHECK:      %[[T:.*]] = block.load
    // CHECK-NEXT: block.store %[[T]]
    %t = block.load %gx [[m], []] : tensor<8x4xf32> -> !block.tile<4x4xf32>
    %one = block.constant 1.0 : !block.tile<f32>
    %zero = block.constant 0.0 : !block.tile<f32>
    %0 = block.binary mul %t, %one : (!block.tile<4x4xf32>, !block.tile<f32>) -> !block.tile<4x4xf32>
    %1 = block.binary sub %0, %zero : (!block.tile<4x4xf32>, !block.tile<f32>) -> !block.tile<4x4xf32>
    %2 = block.cast %1 : (!block.tile<4x4xf32>) -> !block.tile<4x4xf32>
    %3 = block.reshape %2 : (!block.tile<4x4xf32>) -> !block.tile<4x4xf32>
    %4 = block.broadcast %3 : (!block.tile<4x4xf32>) -> !block.tile<4x4xf32>
    %5 = block.transpose %4 [0, 1] : (!block.tile<4x4xf32>) -> !block.tile<4x4xf32>
    %6 = block.reduce sum %5 dims [] : (!block.tile<4x4xf32>) -> !block.tile<4x4xf32>
    block.store %6 [[m], []] : !block.tile<4x4xf32>
  }
  kernel.return %y : tensor<8x4xf32>
}

// A square transposed is not the square; x - 1 is not x.
// CHECK-LABEL: kernel.graph @kept
kernel.graph @kept(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %y = kernel.launch(%x) grid [] : (tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%gx: tensor<4x4xf32>):
    // CHECK: block.transpose
    // CHECK: block.binary sub
    %t = block.load %gx [[], []] : tensor<4x4xf32> -> !block.tile<4x4xf32>
    %one = block.constant 1.0 : !block.tile<f32>
    %0 = block.transpose %t [1, 0] : (!block.tile<4x4xf32>) -> !block.tile<4x4xf32>
    %1 = block.binary sub %0, %one : (!block.tile<4x4xf32>, !block.tile<f32>) -> !block.tile<4x4xf32>
    block.store %1 [[], []] : !block.tile<4x4xf32>
  }
  kernel.return %y : tensor<4x4xf32>
}

// A loop whose results are unused is removed.
// CHECK-LABEL: kernel.graph @dead_loop
kernel.graph @dead_loop(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %y = kernel.launch(%x) grid [] : (tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%gx: tensor<4x4xf32>):
    // CHECK-NOT: block.loop
    %t = block.load %gx [[], []] : tensor<4x4xf32> -> !block.tile<4x4xf32>
    %s = block.loop [k = 2] {
      %u = block.load %gx [[k], []] : tensor<4x4xf32> -> !block.tile<2x4xf32>
      block.accumulate sum %u : !block.tile<2x4xf32>
    } : !block.tile<2x4xf32>
    block.store %t [[], []] : !block.tile<4x4xf32>
  }
  kernel.return %y : tensor<4x4xf32>
}
