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
