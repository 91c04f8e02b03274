// RUN: mirage-opt %s --mirage-mask-padding --verify-diagnostics

// Without layouts the padding is unknown; doing nothing would be wrong later.
kernel.graph @no_layouts(%x: tensor<4x20xf32>) -> tensor<4x1xf32> {
  %y = kernel.launch(%x) grid [] schedule <warps = 1, stages = 1> : (tensor<4x20xf32>) -> tensor<4x1xf32> {
  ^bb0(%gx: tensor<4x20xf32>):
    // expected-error @below {{expected a layout (mirage-assign-layouts), got '!block.tile<4x20xf32>'}}
    %t = block.load %gx [[], []] : tensor<4x20xf32> -> !block.tile<4x20xf32>
    %m = block.reduce max %t dims [1] : (!block.tile<4x20xf32>) -> !block.tile<4x1xf32>
    block.store %m [[], []] : !block.tile<4x1xf32>
  }
  kernel.return %y : tensor<4x1xf32>
}
