// RUN: mirage-opt %s --mirage-assign-layouts --mirage-pipeline-loops | FileCheck %s
// RUN: %execute %s

// The factors of the product after the loop are copied before the loop.
// CHECK-LABEL: kernel.graph @behind_loop
// CHECK: ^bb0(%[[X:.*]]: tensor<16x256xf16>, %[[A:.*]]: tensor<256x16xf16>, %[[B:.*]]: tensor<16x256xf16>):
// CHECK-NEXT: block.load %[[B]]
// CHECK-NEXT: block.loop
kernel.graph @behind_loop(%x: tensor<16x256xf16>, %a: tensor<256x16xf16>, %b: tensor<16x256xf16>) -> tensor<16x256xf16> {
  %y = kernel.launch(%x, %a, %b) grid [n = 4] schedule <warps = 4, stages = 2> : (tensor<16x256xf16>, tensor<256x16xf16>, tensor<16x256xf16>) -> tensor<16x256xf16> {
  ^bb0(%gx: tensor<16x256xf16>, %ga: tensor<256x16xf16>, %gb: tensor<16x256xf16>):
    %t = block.loop [k = 4] {
      %tx = block.load %gx [[], [k]] : tensor<16x256xf16> -> !block.tile<16x64xf16>
      %ta = block.load %ga [[k], []] : tensor<256x16xf16> -> !block.tile<64x16xf16>
      %p = block.matmul %tx, %ta : (!block.tile<16x64xf16>, !block.tile<64x16xf16>) -> !block.tile<16x16xf32>
      block.accumulate sum %p : !block.tile<16x16xf32>
    } : !block.tile<16x16xf32>
    %tb = block.load %gb [[], [n]] : tensor<16x256xf16> -> !block.tile<16x64xf16>
    %h = block.cast %t : (!block.tile<16x16xf32>) -> !block.tile<16x16xf16>
    %r = block.matmul %h, %tb : (!block.tile<16x16xf16>, !block.tile<16x64xf16>) -> !block.tile<16x64xf32>
    block.store %r [[], [n]] : !block.tile<16x64xf32>
  }
  kernel.return %y : tensor<16x256xf16>
}

// Without a loop, in the order in which products read them.
// CHECK-LABEL: kernel.graph @no_loop
// CHECK: ^bb0(%[[X:.*]]: tensor<16x64xf16>, %[[A:.*]]: tensor<64x16xf16>, %[[B:.*]]: tensor<16x256xf16>):
// CHECK-NEXT: block.load %[[X]]
// CHECK-NEXT: block.load %[[A]]
// CHECK-NEXT: block.load %[[B]]
// CHECK-NEXT: block.matmul
kernel.graph @no_loop(%x: tensor<16x64xf16>, %a: tensor<64x16xf16>, %b: tensor<16x256xf16>) -> tensor<16x256xf16> {
  %y = kernel.launch(%x, %a, %b) grid [n = 4] schedule <warps = 4, stages = 1> : (tensor<16x64xf16>, tensor<64x16xf16>, tensor<16x256xf16>) -> tensor<16x256xf16> {
  ^bb0(%gx: tensor<16x64xf16>, %ga: tensor<64x16xf16>, %gb: tensor<16x256xf16>):
    %tx = block.load %gx [[], []] : tensor<16x64xf16> -> !block.tile<16x64xf16>
    %ta = block.load %ga [[], []] : tensor<64x16xf16> -> !block.tile<64x16xf16>
    %t = block.matmul %tx, %ta : (!block.tile<16x64xf16>, !block.tile<64x16xf16>) -> !block.tile<16x16xf32>
    %tb = block.load %gb [[], [n]] : tensor<16x256xf16> -> !block.tile<16x64xf16>
    %h = block.cast %t : (!block.tile<16x16xf32>) -> !block.tile<16x16xf16>
    %r = block.matmul %h, %tb : (!block.tile<16x16xf16>, !block.tile<16x64xf16>) -> !block.tile<16x64xf32>
    block.store %r [[], [n]] : !block.tile<16x64xf32>
  }
  kernel.return %y : tensor<16x256xf16>
}
