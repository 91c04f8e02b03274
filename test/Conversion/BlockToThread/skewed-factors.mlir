// Factors whose rows both start at odd elements: threads have the elements of four instructions side by
// side along K.
// RUN: mirage-opt %s --mirage-lower-block | FileCheck %s
// RUN: %execute %s

// CHECK-DAG: #[[LHS:.+]] = #thread.layout<reg = {{\[}}[0, 1], [8, 0], [0, 2], [0, 4], [0, 8]], lane = {{\[}}[0, 16], [0, 32], [1, 0], [2, 0], [4, 0]]
// CHECK-DAG: #[[RHS:.+]] = #thread.layout<reg = {{\[}}[1, 0], [2, 0], [4, 0], [8, 0]], lane = {{\[}}[16, 0], [32, 0], [0, 1], [0, 2], [0, 4]]
// CHECK: thread.copy_async {{.*}} : memref<16x127xf16> to <16x64xf16, pad = 63>
// CHECK: thread.mma {{.*}} <16x64xf16, #[[LHS]]>, <64x8xf16, #[[RHS]]>
kernel.graph @linear(%a: tensor<16x127xf16>, %b: tensor<8x127xf16>) -> tensor<16x8xf16>
    attributes {form = #kernel.form<selected>} {
  %c = kernel.launch(%a, %b) grid [m = 1] schedule <warps = 1, stages = 2> : (tensor<16x127xf16>, tensor<8x127xf16>) -> tensor<16x8xf16> {
  ^bb0(%ga: tensor<16x127xf16>, %gb: tensor<8x127xf16>):
    %s = block.loop [k = 2] {
      %x = block.load %ga [[m], [k]] : tensor<16x127xf16> -> !block.tile<16x64xf16>
      %w = block.load %gb [[], [k]] : tensor<8x127xf16> -> !block.tile<8x64xf16>
      %y = block.transpose %w [1, 0] : (!block.tile<8x64xf16>) -> !block.tile<64x8xf16>
      %p = block.matmul %x, %y : (!block.tile<16x64xf16>, !block.tile<64x8xf16>) -> !block.tile<16x8xf32>
      block.accumulate sum %p : !block.tile<16x8xf32>
    } : !block.tile<16x8xf32>
    block.store %s [[m], []] : !block.tile<16x8xf32>
  }
  kernel.return %c : tensor<16x8xf16>
}
