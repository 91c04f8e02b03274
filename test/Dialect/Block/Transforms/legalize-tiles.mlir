// RUN: mirage-opt %s --mirage-legalize-tiles | FileCheck %s
// RUN: %execute %s

// Ops that do not depend on the loop leave it; unused loads are removed.
// CHECK-LABEL: kernel.graph @hoist
kernel.graph @hoist(%x: tensor<64x32xf16>, %g: tensor<32xf16>) -> tensor<1x32xf16> {
  // CHECK: ^bb0
  // CHECK-NEXT: %[[G:.*]] = block.load %{{.*}} {{\[\[}}]] : tensor<32xf16>
  // CHECK-NEXT: %[[Q:.*]] = block.unary square %[[G]]
  // CHECK-NEXT: block.loop [k = 4]
  // CHECK-NEXT: block.load
  // CHECK-NEXT: block.binary mul %{{.*}}, %[[Q]]
  %y = kernel.launch(%x, %g) grid [] : (tensor<64x32xf16>, tensor<32xf16>) -> tensor<1x32xf16> {
  ^bb0(%gx: tensor<64x32xf16>, %gg: tensor<32xf16>):
    %s = block.loop [k = 4] {
      %u = block.load %gx [[k], []] : tensor<64x32xf16> -> !block.tile<16x32xf16>
      %t = block.load %gx [[k], []] : tensor<64x32xf16> -> !block.tile<16x32xf16>
      %w = block.load %gg [[]] : tensor<32xf16> -> !block.tile<32xf16>
      %q = block.unary square %w : (!block.tile<32xf16>) -> !block.tile<32xf32>
      %p = block.binary mul %t, %q : (!block.tile<16x32xf16>, !block.tile<32xf32>) -> !block.tile<16x32xf32>
      %r = block.reduce sum %p dims [0] : (!block.tile<16x32xf32>) -> !block.tile<1x32xf32>
      block.accumulate sum %r : !block.tile<1x32xf32>
    } : !block.tile<1x32xf32>
    block.store %s [[], []] : !block.tile<1x32xf32>
  }
  kernel.return %y : tensor<1x32xf16>
}

// A product over one column needs no tensor cores; operands get one type.
// CHECK-LABEL: kernel.graph @products
kernel.graph @products(%a: tensor<16x1xf16>, %b: tensor<1x16xf16>, %c: tensor<16x16xf32>) -> tensor<16x16xf32> {
  // CHECK: block.binary mul {{.*}} : (!block.tile<16x1xf16>, !block.tile<1x16xf16>) -> !block.tile<16x16xf32>
  // CHECK: %[[H:.*]] = block.cast %{{.*}} : (!block.tile<16x16xf16>) -> !block.tile<16x16xf32>
  // CHECK: block.matmul %[[H]], %{{.*}} : (!block.tile<16x16xf32>, !block.tile<16x16xf32>)
  %y = kernel.launch(%a, %b, %c) grid [] : (tensor<16x1xf16>, tensor<1x16xf16>, tensor<16x16xf32>) -> tensor<16x16xf32> {
  ^bb0(%ga: tensor<16x1xf16>, %gb: tensor<1x16xf16>, %gc: tensor<16x16xf32>):
    %ta = block.load %ga [[], []] : tensor<16x1xf16> -> !block.tile<16x1xf16>
    %tb = block.load %gb [[], []] : tensor<1x16xf16> -> !block.tile<1x16xf16>
    %tc = block.load %gc [[], []] : tensor<16x16xf32> -> !block.tile<16x16xf32>
    %p = block.matmul %ta, %tb : (!block.tile<16x1xf16>, !block.tile<1x16xf16>) -> !block.tile<16x16xf32>
    %h = block.cast %p : (!block.tile<16x16xf32>) -> !block.tile<16x16xf16>
    %q = block.matmul %h, %tc : (!block.tile<16x16xf16>, !block.tile<16x16xf32>) -> !block.tile<16x16xf32>
    block.store %q [[], []] : !block.tile<16x16xf32>
  }
  kernel.return %y : tensor<16x16xf32>
}
