// RUN: mirage-opt %s --mirage-assign-layouts --split-input-file --verify-diagnostics

kernel.graph @no_schedule(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  // expected-error @below {{expected a schedule (#kernel.schedule), got none}}
  %y = kernel.launch(%x) grid [] : (tensor<4x8xf16>) -> tensor<4x8xf16> {
  ^bb0(%gx: tensor<4x8xf16>):
    %t = block.load %gx [[], []] : tensor<4x8xf16> -> !block.tile<4x8xf16>
    block.store %t [[], []] : !block.tile<4x8xf16>
  }
  kernel.return %y : tensor<4x8xf16>
}

// -----

kernel.graph @warps(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  // expected-error @below {{expected a power of two of at most 32 warps, got 6}}
  %y = kernel.launch(%x) grid [] schedule <warps = 6, stages = 1> : (tensor<4x8xf16>) -> tensor<4x8xf16> {
  ^bb0(%gx: tensor<4x8xf16>):
    %t = block.load %gx [[], []] : tensor<4x8xf16> -> !block.tile<4x8xf16>
    block.store %t [[], []] : !block.tile<4x8xf16>
  }
  kernel.return %y : tensor<4x8xf16>
}

// -----

kernel.graph @doubles(%x: tensor<4x8xf64>) -> tensor<4x8xf64> {
  %y = kernel.launch(%x) grid [] schedule <warps = 4, stages = 1> : (tensor<4x8xf64>) -> tensor<4x8xf64> {
  ^bb0(%gx: tensor<4x8xf64>):
    // expected-error @below {{expected tiles of f16, bf16 or f32 (kernels are not generated for f64)}}
    %t = block.load %gx [[], []] : tensor<4x8xf64> -> !block.tile<4x8xf64>
    block.store %t [[], []] : !block.tile<4x8xf64>
  }
  kernel.return %y : tensor<4x8xf64>
}

// -----

kernel.graph @not_flat(%x: tensor<2x4x8xf16>) -> tensor<2x4x8xf32> {
  %y = kernel.launch(%x) grid [b = 2] schedule <warps = 4, stages = 1> : (tensor<2x4x8xf16>) -> tensor<2x4x8xf32> {
  ^bb0(%gx: tensor<2x4x8xf16>):
    %t = block.load %gx [[b], [], []] : tensor<2x4x8xf16> -> !block.tile<1x4x8xf16>
    // expected-error @below {{expected flattened tiles (mirage-flatten-tiles), got}}
    %u = block.unary exp %t : (!block.tile<1x4x8xf16>) -> !block.tile<1x4x8xf32>
    block.store %u [[b], [], []] : !block.tile<1x4x8xf32>
  }
  kernel.return %y : tensor<2x4x8xf32>
}
