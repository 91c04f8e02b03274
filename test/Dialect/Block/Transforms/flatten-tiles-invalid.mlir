// RUN: mirage-opt %s --mirage-flatten-tiles --split-input-file --verify-diagnostics

kernel.graph @too_many(%x: tensor<4x4x4xf16>) -> tensor<4x4x4xf16> {
  %y = kernel.launch(%x) grid [] : (tensor<4x4x4xf16>) -> tensor<4x4x4xf16> {
  ^bb0(%gx: tensor<4x4x4xf16>):
    // expected-error @below {{expected tiles with at most two dimensions larger than 1; this tile and those combined with it have larger dimensions -3, -2, -1 (counted from the last, -1)}}
    %t = block.load %gx [[], [], []] : tensor<4x4x4xf16> -> !block.tile<4x4x4xf16>
    block.store %t [[], [], []] : !block.tile<4x4x4xf16>
  }
  kernel.return %y : tensor<4x4x4xf16>
}

// -----

// A matmul fixes the last two dimensions.
kernel.graph @batched(%x: tensor<2x4x8xf16>, %w: tensor<8x8xf16>) -> tensor<2x4x8xf16> {
  %y = kernel.launch(%x, %w) grid [] : (tensor<2x4x8xf16>, tensor<8x8xf16>) -> tensor<2x4x8xf16> {
  ^bb0(%gx: tensor<2x4x8xf16>, %gw: tensor<8x8xf16>):
    // expected-error @below {{expected tiles with at most two dimensions larger than 1, the last two because of a matmul; this tile and those combined with it have larger dimensions -3, -2, -1}}
    %t = block.load %gx [[], [], []] : tensor<2x4x8xf16> -> !block.tile<2x4x8xf16>
    %u = block.load %gw [[], []] : tensor<8x8xf16> -> !block.tile<8x8xf16>
    %p = block.matmul %t, %u : (!block.tile<2x4x8xf16>, !block.tile<8x8xf16>) -> !block.tile<2x4x8xf32>
    block.store %p [[], [], []] : !block.tile<2x4x8xf32>
  }
  kernel.return %y : tensor<2x4x8xf16>
}
