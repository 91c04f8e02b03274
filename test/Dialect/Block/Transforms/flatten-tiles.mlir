// RUN: mirage-opt %s --mirage-flatten-tiles --split-input-file | FileCheck %s
// RUN: %execute %s

// CHECK-LABEL: kernel.graph @batch
// CHECK: %[[X:.*]] = block.load %{{.*}} -> !block.tile<1x16x64xf16>
// CHECK-NEXT: %[[M:.*]] = block.reshape %[[X]] : (!block.tile<1x16x64xf16>) -> !block.tile<16x64xf16>
// CHECK-NEXT: %[[S:.*]] = block.reduce sum %[[M]] dims [1] : (!block.tile<16x64xf16>) -> !block.tile<16x1xf32>
// CHECK-NEXT: %[[G:.*]] = block.load %{{.*}} -> !block.tile<64xf16>
// CHECK-NEXT: %[[R:.*]] = block.reshape %[[G]] : (!block.tile<64xf16>) -> !block.tile<1x64xf16>
// CHECK-NEXT: %[[P:.*]] = block.binary mul %[[S]], %[[R]] : (!block.tile<16x1xf32>, !block.tile<1x64xf16>) -> !block.tile<16x64xf32>
// CHECK-NEXT: %[[Y:.*]] = block.reshape %[[P]] : (!block.tile<16x64xf32>) -> !block.tile<1x16x64xf32>
// CHECK-NEXT: block.store %[[Y]]
kernel.graph @batch(%x: tensor<4x16x64xf16>, %g: tensor<64xf16>) -> tensor<4x16x64xf16> {
  %y = kernel.launch(%x, %g) grid [b = 4] : (tensor<4x16x64xf16>, tensor<64xf16>) -> tensor<4x16x64xf16> {
  ^bb0(%gx: tensor<4x16x64xf16>, %gg: tensor<64xf16>):
    %t = block.load %gx [[b], [], []] : tensor<4x16x64xf16> -> !block.tile<1x16x64xf16>
    %s = block.reduce sum %t dims [0, 2] : (!block.tile<1x16x64xf16>) -> !block.tile<1x16x1xf32>
    %w = block.load %gg [[]] : tensor<64xf16> -> !block.tile<64xf16>
    %p = block.binary mul %s, %w : (!block.tile<1x16x1xf32>, !block.tile<64xf16>) -> !block.tile<1x16x64xf32>
    block.store %p [[b], [], []] : !block.tile<1x16x64xf32>
  }
  kernel.return %y : tensor<4x16x64xf16>
}

// -----

// Rows and columns may lie apart.
// CHECK-LABEL: kernel.graph @apart
// CHECK: block.reshape %{{.*}} : (!block.tile<16x1x64xf16>) -> !block.tile<16x64xf16>
// CHECK: block.transpose %{{.*}} [1, 0] : (!block.tile<16x64xf16>) -> !block.tile<64x16xf16>
// CHECK: block.reshape %{{.*}} : (!block.tile<64x16xf16>) -> !block.tile<1x64x16xf16>
kernel.graph @apart(%x: tensor<16x4x64xf16>) -> tensor<4x64x16xf16> {
  %y = kernel.launch(%x) grid [h = 4] : (tensor<16x4x64xf16>) -> tensor<4x64x16xf16> {
  ^bb0(%gx: tensor<16x4x64xf16>):
    %t = block.load %gx [[], [h], []] : tensor<16x4x64xf16> -> !block.tile<16x1x64xf16>
    %u = block.transpose %t [1, 2, 0] : (!block.tile<16x1x64xf16>) -> !block.tile<1x64x16xf16>
    block.store %u [[h], [], []] : !block.tile<1x64x16xf16>
  }
  kernel.return %y : tensor<4x64x16xf16>
}

// -----

// Two loads of a vector, once along the columns of a matrix and once along its rows (-3 and -2):
// the single load that remains after common subexpression elimination is still read in both
// ways.
// CHECK-LABEL: kernel.graph @both_ways
// CHECK: block.reshape %{{.*}} : (!block.tile<5x1xf16>) -> !block.tile<1x5xf16>
kernel.graph @both_ways(%x: tensor<5x1xf16>, %z: tensor<4x1x1xf16>) -> (tensor<4x5x1xf32>, tensor<5x7xf32>) {
  %y, %w = kernel.launch(%x, %z) grid [] schedule <warps = 1, stages = 1> : (tensor<5x1xf16>, tensor<4x1x1xf16>) -> (tensor<4x5x1xf32>, tensor<5x7xf32>) {
  ^bb0(%g: tensor<5x1xf16>, %h: tensor<4x1x1xf16>):
    %a = block.load %g [[], []] : tensor<5x1xf16> -> !block.tile<5x1xf16>
    %b = block.load %g [[], []] : tensor<5x1xf16> -> !block.tile<5x1xf16>
    %c = block.load %h [[], [], []] : tensor<4x1x1xf16> -> !block.tile<4x1x1xf16>
    %p = block.binary mul %a, %c : (!block.tile<5x1xf16>, !block.tile<4x1x1xf16>) -> !block.tile<4x5x1xf32>
    %q = block.broadcast %b : (!block.tile<5x1xf16>) -> !block.tile<5x7xf16>
    %s = block.unary neg %q : (!block.tile<5x7xf16>) -> !block.tile<5x7xf32>
    block.store %p [[], [], []], %s [[], []] : !block.tile<4x5x1xf32>, !block.tile<5x7xf32>
  }
  kernel.return %y, %w : tensor<4x5x1xf32>, tensor<5x7xf32>
}

// -----

// Vectors that are moved only: rows are loaded and columns stored.
// CHECK-LABEL: kernel.graph @moved
// CHECK: %[[X:.*]] = block.load %{{.*}} -> !block.tile<1x5xf16>
// CHECK-NEXT: %[[T:.*]] = block.transpose %[[X]] [1, 0] : (!block.tile<1x5xf16>) -> !block.tile<5x1xf16>
// CHECK-NEXT: %[[R:.*]] = block.reshape %[[X]] : (!block.tile<1x5xf16>) -> !block.tile<1x1x5xf16>
// CHECK-NEXT: block.store %[[T]] {{.*}}, %[[X]] {{.*}}, %[[R]]
kernel.graph @moved(%x: tensor<1x5xf16>) -> (tensor<5x1xf16>, tensor<1x5xf16>, tensor<1x1x5xf16>) {
  %y:3 = kernel.launch(%x) grid [] schedule <warps = 1, stages = 1> : (tensor<1x5xf16>) -> (tensor<5x1xf16>, tensor<1x5xf16>, tensor<1x1x5xf16>) {
  ^bb0(%g: tensor<1x5xf16>):
    %a = block.load %g [[], []] : tensor<1x5xf16> -> !block.tile<1x5xf16>
    %b = block.reshape %a : (!block.tile<1x5xf16>) -> !block.tile<5x1xf16>
    %c = block.reshape %a : (!block.tile<1x5xf16>) -> !block.tile<1x1x5xf16>
    block.store %b [[], []], %a [[], []], %c [[], [], []] : !block.tile<5x1xf16>, !block.tile<1x5xf16>, !block.tile<1x1x5xf16>
  }
  kernel.return %y#0, %y#1, %y#2 : tensor<5x1xf16>, tensor<1x5xf16>, tensor<1x1x5xf16>
}

// -----

// A value computed only from constants is a matrix, too.
// CHECK-LABEL: kernel.graph @constants
// CHECK: %[[C:.*]] = block.constant
// CHECK: %[[B:.*]] = block.broadcast %[[C]] : (!block.tile<f32>) -> !block.tile<1x1xf32>
// CHECK: block.binary max %{{.*}}, %{{.*}} -> !block.tile<1x1xf32>
kernel.graph @constants() -> (tensor<1x32xf16>, tensor<f32>) {
  %0:2 = kernel.launch() grid [n = 32] schedule <warps = 4, stages = 1> : () -> (tensor<1x32xf16>, tensor<f32>) {
    %c = block.constant 5.000000e-01 : !block.tile<f32>
    %m = block.binary max %c, %c : (!block.tile<f32>, !block.tile<f32>) -> !block.tile<f32>
    %u = block.unary neg %c : (!block.tile<f32>) -> !block.tile<f32>
    %s = block.loop [k = 3] {
      block.accumulate sum %c : !block.tile<f32>
    } : !block.tile<f32>
    %t = block.binary mul %s, %u : (!block.tile<f32>, !block.tile<f32>) -> !block.tile<f32>
    %a = block.binary add %t, %m : (!block.tile<f32>, !block.tile<f32>) -> !block.tile<f32>
    %b = block.broadcast %a : (!block.tile<f32>) -> !block.tile<1x1xf32>
    block.store %b [[], [n]], %c [] : !block.tile<1x1xf32>, !block.tile<f32>
  }
  kernel.return %0#0, %0#1 : tensor<1x32xf16>, tensor<f32>
}
