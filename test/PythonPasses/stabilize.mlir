// RUN: mirage-opt %s --mirage-stabilize | FileCheck %s
// RUN: mirage-opt %s --mirage-stabilize | %execute - --meaning %s

// Numerator and denominator in one loop, both proportional to exp(-m): they get a running maximum.
// CHECK-LABEL: kernel.graph @softmax_average
// CHECK: block.loop [k = 4]
// CHECK: %[[M:.*]] = block.running_max
// CHECK: block.binary sub %{{.*}}, %[[M]]
// CHECK: block.unary exp
// CHECK: block.accumulate sum %{{.*}} rescale %[[M]], sum %{{.*}} rescale %[[M]]
kernel.graph @softmax_average(%x: tensor<16x256xf32>, %v: tensor<256x32xf32>) -> tensor<16x32xf32> {
  %o = kernel.launch(%x, %v) grid [m = 1] : (tensor<16x256xf32>, tensor<256x32xf32>) -> tensor<16x32xf32> {
  ^bb0(%gx: tensor<16x256xf32>, %gv: tensor<256x32xf32>):
    %n, %d = block.loop [k = 4] {
      %t = block.load %gx [[m], [k]] : tensor<16x256xf32> -> !block.tile<16x64xf32>
      %u = block.load %gv [[k], []] : tensor<256x32xf32> -> !block.tile<64x32xf32>
      %e = block.unary exp %t : (!block.tile<16x64xf32>) -> !block.tile<16x64xf32>
      %p = block.matmul %e, %u : (!block.tile<16x64xf32>, !block.tile<64x32xf32>) -> !block.tile<16x32xf32>
      %s = block.reduce sum %e dims [1] : (!block.tile<16x64xf32>) -> !block.tile<16x1xf32>
      block.accumulate sum %p, sum %s : !block.tile<16x32xf32>, !block.tile<16x1xf32>
    } : !block.tile<16x32xf32>, !block.tile<16x1xf32>
    %y = block.binary div %n, %d : (!block.tile<16x32xf32>, !block.tile<16x1xf32>) -> !block.tile<16x32xf32>
    block.store %y [[m], []] : !block.tile<16x32xf32>
  }
  kernel.return %o : tensor<16x32xf32>
}
