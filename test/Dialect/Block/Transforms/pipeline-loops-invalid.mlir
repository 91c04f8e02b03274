// RUN: mirage-opt %s --mirage-pipeline-loops --split-input-file --verify-diagnostics

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

kernel.graph @no_layouts(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %y = kernel.launch(%x) grid [] schedule <warps = 1, stages = 2> : (tensor<4x8xf16>) -> tensor<4x8xf16> {
  ^bb0(%gx: tensor<4x8xf16>):
    // expected-error @below {{expected a layout (mirage-assign-layouts), got '!block.tile<4x8xf16>'}}
    %t = block.load %gx [[], []] : tensor<4x8xf16> -> !block.tile<4x8xf16>
    block.store %t [[], []] : !block.tile<4x8xf16>
  }
  kernel.return %y : tensor<4x8xf16>
}
