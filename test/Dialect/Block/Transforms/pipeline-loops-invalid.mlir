// RUN: mirage-opt %s --mirage-pipeline-loops --verify-diagnostics

kernel.graph @no_schedule(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  // expected-error @below {{expected a schedule (#kernel.schedule), got none}}
  %y = kernel.launch(%x) grid [] : (tensor<4x8xf16>) -> tensor<4x8xf16> {
  ^bb0(%gx: tensor<4x8xf16>):
    %t = block.load %gx [[], []] : tensor<4x8xf16> -> !block.tile<4x8xf16>
    block.store %t [[], []] : !block.tile<4x8xf16>
  }
  kernel.return %y : tensor<4x8xf16>
}
