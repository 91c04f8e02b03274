// RUN: mirage-opt %s --mirage-assign-layouts --mirage-pipeline-loops | FileCheck %s

// Of 1026 blocks nine are to run on each multiprocessor at once. They do if these tiles, of 32 KB
// each, follow each other in memory (seven of them, then), and four of them if not.
// CHECK-LABEL: kernel.graph @many_blocks
// CHECK: block.matmul
// CHECK: block.load
// CHECK: block.matmul
kernel.graph @many_blocks(%x: tensor<1026x16x16xf16>, %a: tensor<16x1024xf16>, %b: tensor<1024x16xf16>) -> tensor<1026x16x16xf16> {
  %y = kernel.launch(%x, %a, %b) grid [b = 1026] schedule <warps = 4, stages = 1> : (tensor<1026x16x16xf16>, tensor<16x1024xf16>, tensor<1024x16xf16>) -> tensor<1026x16x16xf16> {
  ^bb0(%gx: tensor<1026x16x16xf16>, %ga: tensor<16x1024xf16>, %gb: tensor<1024x16xf16>):
    %bx = block.load %gx [[b], [], []] : tensor<1026x16x16xf16> -> !block.tile<1x16x16xf16>
    %tx = block.reshape %bx : (!block.tile<1x16x16xf16>) -> !block.tile<16x16xf16>
    %ta = block.load %ga [[], []] : tensor<16x1024xf16> -> !block.tile<16x1024xf16>
    %t = block.matmul %tx, %ta : (!block.tile<16x16xf16>, !block.tile<16x1024xf16>) -> !block.tile<16x1024xf32>
    %tb = block.load %gb [[], []] : tensor<1024x16xf16> -> !block.tile<1024x16xf16>
    %h = block.cast %t : (!block.tile<16x1024xf32>) -> !block.tile<16x1024xf16>
    %r = block.matmul %h, %tb : (!block.tile<16x1024xf16>, !block.tile<1024x16xf16>) -> !block.tile<16x16xf32>
    %br = block.reshape %r : (!block.tile<16x16xf32>) -> !block.tile<1x16x16xf32>
    block.store %br [[b], [], []] : !block.tile<1x16x16xf32>
  }
  kernel.return %y : tensor<1026x16x16xf16>
}
