// RUN: mirage-opt %s --mirage-stabilize | FileCheck %s
// RUN: mirage-opt %s --mirage-stabilize | %execute - --meaning %s

// The logarithm of a sum of exponentials lacks the maximum, which is taken from the score that it is subtracted from:
// (x - m) - log(s) keeps the digits that x - (log(s) + m) loses.
// CHECK-LABEL: kernel.graph @log_softmax
// CHECK: %[[X:.*]] = block.load
// CHECK: %[[M:.*]] = block.binary max
// CHECK: %[[S:.*]] = block.reduce sum
// CHECK: %[[LOG:.*]] = block.unary log %[[S]]
// CHECK: %[[LOW:.*]] = block.binary sub %[[X]], %[[M]]
// CHECK: block.binary sub %[[LOW]], %[[LOG]]
kernel.graph @log_softmax(%x: tensor<16x64xf32>) -> tensor<16x64xf32> {
  %o = kernel.launch(%x) grid [m = 1] : (tensor<16x64xf32>) -> tensor<16x64xf32> {
  ^bb0(%gx: tensor<16x64xf32>):
    %t = block.load %gx [[m], []] : tensor<16x64xf32> -> !block.tile<16x64xf32>
    %e = block.unary exp %t : (!block.tile<16x64xf32>) -> !block.tile<16x64xf32>
    %s = block.reduce sum %e dims [1] : (!block.tile<16x64xf32>) -> !block.tile<16x1xf32>
    %l = block.unary log %s : (!block.tile<16x1xf32>) -> !block.tile<16x1xf32>
    %y = block.binary sub %t, %l : (!block.tile<16x64xf32>, !block.tile<16x1xf32>) -> !block.tile<16x64xf32>
    block.store %y [[m], []] : !block.tile<16x64xf32>
  }
  kernel.return %o : tensor<16x64xf32>
}

// Only the logarithm is stored: the maximum is added back.
// CHECK-LABEL: kernel.graph @log_sum_exp
// CHECK: %[[SUMS:.*]]:2 = block.loop [k = 4]
// CHECK: %[[LOG:.*]] = block.unary log %[[SUMS]]#0
// CHECK: %[[ALL:.*]] = block.binary add %[[LOG]], %[[SUMS]]#1
// CHECK: block.store %[[ALL]]
kernel.graph @log_sum_exp(%x: tensor<16x256xf32>) -> tensor<16x1xf32> {
  %o = kernel.launch(%x) grid [m = 1] : (tensor<16x256xf32>) -> tensor<16x1xf32> {
  ^bb0(%gx: tensor<16x256xf32>):
    %d = block.loop [k = 4] {
      %t = block.load %gx [[m], [k]] : tensor<16x256xf32> -> !block.tile<16x64xf32>
      %e = block.unary exp %t : (!block.tile<16x64xf32>) -> !block.tile<16x64xf32>
      %s = block.reduce sum %e dims [1] : (!block.tile<16x64xf32>) -> !block.tile<16x1xf32>
      block.accumulate sum %s : !block.tile<16x1xf32>
    } : !block.tile<16x1xf32>
    %l = block.unary log %d : (!block.tile<16x1xf32>) -> !block.tile<16x1xf32>
    block.store %l [[m], []] : !block.tile<16x1xf32>
  }
  kernel.return %o : tensor<16x1xf32>
}
