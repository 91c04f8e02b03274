// RUN: mirage-opt %s --mirage-stabilize | FileCheck %s
// RUN: mirage-opt %s --mirage-stabilize | %execute - --meaning %s

// Two passes over a row: the exponentials of the second one, in tiles of another size, are taken relative to the
// maximum that the first one has found.
// CHECK-LABEL: kernel.graph @two_passes
// CHECK: %[[FIRST:.*]]:2 = block.loop [k = 4]
// CHECK: %[[M:.*]] = block.running_max
// CHECK: block.accumulate sum %{{.*}} rescale %[[M]], last %[[M]]
// CHECK: block.loop [l = 2]
// CHECK-NOT: block.running_max
// CHECK: block.binary sub %{{.*}}, %[[FIRST]]#1
// CHECK: %[[E:.*]] = block.unary exp
// CHECK: block.binary div %[[E]], %[[FIRST]]#0
// CHECK: block.accumulate sum %{{[0-9a-z]+}} :
kernel.graph @two_passes(%x: tensor<16x256xf32>, %v: tensor<256x32xf32>) -> tensor<16x32xf32> {
  %o = kernel.launch(%x, %v) grid [m = 1] : (tensor<16x256xf32>, tensor<256x32xf32>) -> tensor<16x32xf32> {
  ^bb0(%gx: tensor<16x256xf32>, %gv: tensor<256x32xf32>):
    %d = block.loop [k = 4] {
      %t = block.load %gx [[m], [k]] : tensor<16x256xf32> -> !block.tile<16x64xf32>
      %e = block.unary exp %t : (!block.tile<16x64xf32>) -> !block.tile<16x64xf32>
      %s = block.reduce sum %e dims [1] : (!block.tile<16x64xf32>) -> !block.tile<16x1xf32>
      block.accumulate sum %s : !block.tile<16x1xf32>
    } : !block.tile<16x1xf32>
    %y = block.loop [l = 2] {
      %t = block.load %gx [[m], [l]] : tensor<16x256xf32> -> !block.tile<16x128xf32>
      %u = block.load %gv [[l], []] : tensor<256x32xf32> -> !block.tile<128x32xf32>
      %e = block.unary exp %t : (!block.tile<16x128xf32>) -> !block.tile<16x128xf32>
      %p = block.binary div %e, %d : (!block.tile<16x128xf32>, !block.tile<16x1xf32>) -> !block.tile<16x128xf32>
      %z = block.matmul %p, %u : (!block.tile<16x128xf32>, !block.tile<128x32xf32>) -> !block.tile<16x32xf32>
      block.accumulate sum %z : !block.tile<16x32xf32>
    } : !block.tile<16x32xf32>
    block.store %y [[m], []] : !block.tile<16x32xf32>
  }
  kernel.return %o : tensor<16x32xf32>
}
