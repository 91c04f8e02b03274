// RUN: mirage-opt %s --mirage-assign-layouts --mirage-mask-padding | FileCheck %s
// RUN: %execute %s

// 20 columns are held by 32. The sum of squares needs no mask, since loads fill
// padding with zeros and 0 * 0 = 0; the sum of exponentials and the maximum do.
// CHECK-LABEL: kernel.graph @padded
// CHECK: %[[Q:.*]] = block.unary square
// CHECK-NEXT: block.reduce sum %[[Q]]
// CHECK: %[[E:.*]] = block.unary exp
// CHECK: %[[Z:.*]] = block.mask %[[E]] dim 1 [] extent 20 fill 0.0
// CHECK-NEXT: block.reduce sum %[[Z]]
// CHECK: %[[L:.*]] = block.mask %{{.*}} dim 1 [] extent 20 fill -inf
// CHECK-NEXT: block.reduce max %[[L]]
kernel.graph @padded(%x: tensor<4x20xf32>) -> (tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x1xf32>) {
  %a, %b, %c = kernel.launch(%x) grid [] schedule <warps = 1, stages = 1> : (tensor<4x20xf32>) -> (tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x1xf32>) {
  ^bb0(%gx: tensor<4x20xf32>):
    %t = block.load %gx [[], []] : tensor<4x20xf32> -> !block.tile<4x20xf32>
    %q = block.unary square %t : (!block.tile<4x20xf32>) -> !block.tile<4x20xf32>
    %sq = block.reduce sum %q dims [1] : (!block.tile<4x20xf32>) -> !block.tile<4x1xf32>
    %e = block.unary exp %t : (!block.tile<4x20xf32>) -> !block.tile<4x20xf32>
    %se = block.reduce sum %e dims [1] : (!block.tile<4x20xf32>) -> !block.tile<4x1xf32>
    %m = block.reduce max %t dims [1] : (!block.tile<4x20xf32>) -> !block.tile<4x1xf32>
    block.store %sq [[], []], %se [[], []], %m [[], []] : !block.tile<4x1xf32>, !block.tile<4x1xf32>, !block.tile<4x1xf32>
  }
  kernel.return %a, %b, %c : tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x1xf32>
}

// A product contracts over 12 columns that are held by 16: computed tiles are masked, loaded ones are already
// zero there.
// CHECK-LABEL: kernel.graph @contraction
// CHECK: %[[E:.*]] = block.cast
// CHECK: %[[M:.*]] = block.mask %{{.*}} dim 1 [] extent 12 fill 0.0
// CHECK-NEXT: block.matmul %[[M]], %{{.*}}
// CHECK-NOT: block.mask
kernel.graph @contraction(%x: tensor<16x12xf16>, %w: tensor<12x16xf16>) -> tensor<16x16xf16> {
  %y = kernel.launch(%x, %w) grid [] schedule <warps = 1, stages = 1> : (tensor<16x12xf16>, tensor<12x16xf16>) -> tensor<16x16xf16> {
  ^bb0(%gx: tensor<16x12xf16>, %gw: tensor<12x16xf16>):
    %t = block.load %gx [[], []] : tensor<16x12xf16> -> !block.tile<16x12xf16>
    %u = block.load %gw [[], []] : tensor<12x16xf16> -> !block.tile<12x16xf16>
    %e = block.unary exp %t : (!block.tile<16x12xf16>) -> !block.tile<16x12xf32>
    %h = block.cast %e : (!block.tile<16x12xf32>) -> !block.tile<16x12xf16>
    %p = block.matmul %h, %u : (!block.tile<16x12xf16>, !block.tile<12x16xf16>) -> !block.tile<16x16xf32>
    block.store %p [[], []] : !block.tile<16x16xf32>
  }
  kernel.return %y : tensor<16x16xf16>
}
