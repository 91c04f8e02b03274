// RUN: mirage-opt %s --mirage-flatten-tiles --mirage-assign-layouts --mirage-convert-block-to-thread --canonicalize --split-input-file | FileCheck %s
// RUN: %execute %s

// Equal launches share a function, regardless of names and places; one with another scalar function, another
// grid or tensors of another type has its own.
// CHECK-LABEL: kernel.graph @chain
// CHECK-NEXT: %[[A:.*]] = kernel.invoke @chain_kernels::@chain_0(%{{.*}}) grid [2, 1, 1]
// CHECK-NEXT: %[[B:.*]] = kernel.invoke @chain_kernels::@chain_0(%[[A]]) grid [2, 1, 1]
// CHECK-NEXT: %[[C:.*]] = kernel.invoke @chain_kernels::@chain_2(%[[B]]) grid [2, 1, 1]
// CHECK-NEXT: %[[D:.*]] = kernel.invoke @chain_kernels::@chain_3(%[[C]]) grid [4, 1, 1]
// CHECK-NEXT: %[[E:.*]] = kernel.invoke @chain_kernels::@chain_0(%[[D]]) grid [2, 1, 1]
// CHECK-NEXT: kernel.return %[[E]]
// CHECK-COUNT-3: gpu.func
// CHECK-NOT: gpu.func
kernel.graph @chain(%x: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %a = kernel.launch(%x) grid [r = 2] schedule <warps = 1, stages = 1> : (tensor<8x32xf32>) -> tensor<8x32xf32> {
  ^bb0(%gx: tensor<8x32xf32>):
    %t = block.load %gx [[r], []] : tensor<8x32xf32> -> !block.tile<4x32xf32>
    %u = block.unary tanh %t : (!block.tile<4x32xf32>) -> !block.tile<4x32xf32>
    block.store %u [[r], []] : !block.tile<4x32xf32>
  }
  %b = kernel.launch(%a) grid [r = 2] schedule <warps = 1, stages = 1> : (tensor<8x32xf32>) -> tensor<8x32xf32> {
  ^bb0(%other: tensor<8x32xf32>):
    %v = block.load %other [[r], []] : tensor<8x32xf32> -> !block.tile<4x32xf32>
    %w = block.unary tanh %v : (!block.tile<4x32xf32>) -> !block.tile<4x32xf32>
    block.store %w [[r], []] : !block.tile<4x32xf32>
  }
  %c = kernel.launch(%b) grid [r = 2] schedule <warps = 1, stages = 1> : (tensor<8x32xf32>) -> tensor<8x32xf32> {
  ^bb0(%gx: tensor<8x32xf32>):
    %t = block.load %gx [[r], []] : tensor<8x32xf32> -> !block.tile<4x32xf32>
    %u = block.unary exp %t : (!block.tile<4x32xf32>) -> !block.tile<4x32xf32>
    block.store %u [[r], []] : !block.tile<4x32xf32>
  }
  %d = kernel.launch(%c) grid [r = 4] schedule <warps = 1, stages = 1> : (tensor<8x32xf32>) -> tensor<8x32xf32> {
  ^bb0(%gx: tensor<8x32xf32>):
    %t = block.load %gx [[r], []] : tensor<8x32xf32> -> !block.tile<2x32xf32>
    %u = block.unary tanh %t : (!block.tile<2x32xf32>) -> !block.tile<2x32xf32>
    block.store %u [[r], []] : !block.tile<2x32xf32>
  }
  %e = kernel.launch(%d) grid [r = 2] schedule <warps = 1, stages = 1> : (tensor<8x32xf32>) -> tensor<8x32xf32> {
  ^bb0(%gx: tensor<8x32xf32>):
    %t = block.load %gx [[r], []] : tensor<8x32xf32> -> !block.tile<4x32xf32>
    %u = block.unary tanh %t : (!block.tile<4x32xf32>) -> !block.tile<4x32xf32>
    block.store %u [[r], []] : !block.tile<4x32xf32>
  }
  kernel.return %e : tensor<8x32xf32>
}
