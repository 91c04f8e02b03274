// RUN: mirage-opt %s --mirage-flatten-tiles --mirage-assign-layouts --mirage-convert-block-to-thread --mirage-plan-shared-memory | FileCheck %s
// RUN: %execute %s

// Columns of rows that are loaded in vectors become rows through shared memory. A thread writes its
// elements of a column one by one, and its neighbours are several rows away: rows of 66 elements, an
// odd number of words, lie in different banks (128 rows take 16896 bytes).
// CHECK: gpu.func @turned{{.*}}thread.shared_bytes = 16896
kernel.graph @turned(%x: tensor<56x96xf16>) -> tensor<96x56xf16> {
  %y = kernel.launch(%x) grid [] schedule <warps = 8, stages = 1> : (tensor<56x96xf16>) -> tensor<96x56xf16> {
  ^bb0(%a: tensor<56x96xf16>):
    %1 = block.load %a [[], []] : tensor<56x96xf16> -> !block.tile<56x96xf16>
    %2 = block.transpose %1 [1, 0] : (!block.tile<56x96xf16>) -> !block.tile<96x56xf16>
    block.store %2 [[], []] : !block.tile<96x56xf16>
  }
  kernel.return %y : tensor<96x56xf16>
}
