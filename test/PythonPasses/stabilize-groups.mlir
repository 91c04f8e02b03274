// RUN: mirage-opt %s --mirage-stabilize | FileCheck %s
// RUN: mirage-opt %s --mirage-stabilize | %execute - --meaning %s

// Exponentials that are added: the loop over the cache has a running maximum, the new key has a separate one,
// and all sums, numerators and denominators, are rescaled to the larger one.
// CHECK-LABEL: kernel.graph @cache_and_new_key
// CHECK: %[[SUMS:.*]]:3 = block.loop [k = 4]
// CHECK: %[[M:.*]] = block.running_max
// CHECK: block.accumulate sum %{{.*}} rescale %[[M]], sum %{{.*}} rescale %[[M]], last %[[M]]
// CHECK: %[[NEW:.*]] = block.binary max
// CHECK: %[[BOTH:.*]] = block.binary max %[[SUMS]]#2, %[[NEW]]
// CHECK: block.binary sub %[[SUMS]]#2, %[[BOTH]]
// CHECK: %[[OLD:.*]] = block.unary exp
// CHECK: block.binary mul %[[SUMS]]#0, %[[OLD]]
// CHECK: block.binary sub %[[NEW]], %[[BOTH]]
// CHECK: block.binary add
// CHECK: block.binary mul %[[SUMS]]#1, %[[OLD]]
// CHECK: block.binary add
// CHECK: block.binary div
kernel.graph @cache_and_new_key(%q: tensor<16x32xf16>, %kc: tensor<32x256xf16>, %kn: tensor<32x16xf16>, %vc: tensor<256x32xf16>, %vn: tensor<16x32xf16>) -> tensor<16x32xf32> {
  %o = kernel.launch(%q, %kc, %kn, %vc, %vn) grid [m = 1] : (tensor<16x32xf16>, tensor<32x256xf16>, tensor<32x16xf16>, tensor<256x32xf16>, tensor<16x32xf16>) -> tensor<16x32xf32> {
  ^bb0(%gq: tensor<16x32xf16>, %gkc: tensor<32x256xf16>, %gkn: tensor<32x16xf16>, %gvc: tensor<256x32xf16>, %gvn: tensor<16x32xf16>):
    %x = block.load %gq [[m], []] : tensor<16x32xf16> -> !block.tile<16x32xf16>
    %n, %d = block.loop [k = 4] {
      %t = block.load %gkc [[], [k]] : tensor<32x256xf16> -> !block.tile<32x64xf16>
      %u = block.load %gvc [[k], []] : tensor<256x32xf16> -> !block.tile<64x32xf16>
      %a = block.matmul %x, %t : (!block.tile<16x32xf16>, !block.tile<32x64xf16>) -> !block.tile<16x64xf32>
      %e = block.unary exp %a : (!block.tile<16x64xf32>) -> !block.tile<16x64xf32>
      %h = block.cast %e : (!block.tile<16x64xf32>) -> !block.tile<16x64xf16>
      %p = block.matmul %h, %u : (!block.tile<16x64xf16>, !block.tile<64x32xf16>) -> !block.tile<16x32xf32>
      %s = block.reduce sum %e dims [1] : (!block.tile<16x64xf32>) -> !block.tile<16x1xf32>
      block.accumulate sum %p, sum %s : !block.tile<16x32xf32>, !block.tile<16x1xf32>
    } : !block.tile<16x32xf32>, !block.tile<16x1xf32>
    %t = block.load %gkn [[], []] : tensor<32x16xf16> -> !block.tile<32x16xf16>
    %u = block.load %gvn [[], []] : tensor<16x32xf16> -> !block.tile<16x32xf16>
    %a = block.matmul %x, %t : (!block.tile<16x32xf16>, !block.tile<32x16xf16>) -> !block.tile<16x16xf32>
    %e = block.unary exp %a : (!block.tile<16x16xf32>) -> !block.tile<16x16xf32>
    %h = block.cast %e : (!block.tile<16x16xf32>) -> !block.tile<16x16xf16>
    %p = block.matmul %h, %u : (!block.tile<16x16xf16>, !block.tile<16x32xf16>) -> !block.tile<16x32xf32>
    %s = block.reduce sum %e dims [1] : (!block.tile<16x16xf32>) -> !block.tile<16x1xf32>
    %num = block.binary add %n, %p : (!block.tile<16x32xf32>, !block.tile<16x32xf32>) -> !block.tile<16x32xf32>
    %den = block.binary add %d, %s : (!block.tile<16x1xf32>, !block.tile<16x1xf32>) -> !block.tile<16x1xf32>
    %y = block.binary div %num, %den : (!block.tile<16x32xf32>, !block.tile<16x1xf32>) -> !block.tile<16x32xf32>
    block.store %y [[m], []] : !block.tile<16x32xf32>
  }
  kernel.return %o : tensor<16x32xf32>
}
