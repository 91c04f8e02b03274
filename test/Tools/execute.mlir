// The behaviour of %execute in other tests: it accepts correct results, and reports wrong ones.
// RUN: %execute %s | FileCheck %s --check-prefix=GOOD
// RUN: sed s/exp/log/ %s | not %execute - --meaning %s 2>&1 | FileCheck %s --check-prefix=WRONG
// RUN: grep '^//' %s | not %execute - 2>&1 | FileCheck %s --check-prefix=NOTHING

// GOOD: executed 2 kernels
// WRONG: execute: expected output 0 within 0.0001 of the reference
// NOTHING: execute: expected a kernel to execute, got none
kernel.graph @tails(%x: tensor<10x29xf32>) -> tensor<10x29xf32> {
  %y = kernel.launch(%x) grid [r = 2, c = 3] schedule <warps = 1, stages = 1> : (tensor<10x29xf32>) -> tensor<10x29xf32> {
  ^bb0(%gx: tensor<10x29xf32>):
    %t = block.load %gx [[r], [c]] : tensor<10x29xf32> -> !block.tile<5x10xf32>
    %u = block.unary exp %t : (!block.tile<5x10xf32>) -> !block.tile<5x10xf32>
    block.store %u [[r], [c]] : !block.tile<5x10xf32>
  }
  kernel.return %y : tensor<10x29xf32>
}
