// RUN: mirage-opt %s --pass-pipeline='builtin.module(kernel.graph(mirage-view-tensors),mirage-flatten-tiles,mirage-assign-layouts,mirage-pipeline-loops,mirage-convert-block-to-thread)' --split-input-file --verify-diagnostics

// A tile of 24 columns begins in one head and ends in the next one.
kernel.graph @across_heads(%x: tensor<3x48xf16>, %cache: tensor<3x3x64x16xf16>, %at: tensor<1xi64>) -> tensor<3x3x64x16xf16> {
  // expected-error @below {{expected tiles that cut a result into whole parts of its place, got tiles of 24 elements along dimension 1 of 'tensor<3x48xf16>' in #kernel.place}}
  %0 = kernel.launch(%x) grid [n = 2] schedule <warps = 1, stages = 1> : (tensor<3x48xf16>) -> tensor<3x48xf16> {
  ^bb0(%p: tensor<3x48xf16>):
    %t = block.load %p [[], [n]] : tensor<3x48xf16> -> !block.tile<3x24xf16>
    block.store %t [[], [n]] : !block.tile<3x24xf16>
  }
  %1 = kernel.reshape %0 : (tensor<3x48xf16>) -> tensor<3x3x1x16xf16>
  %2 = kernel.index_copy %cache, %at, %1 dim 2 : (tensor<3x3x64x16xf16>, tensor<1xi64>, tensor<3x3x1x16xf16>) -> tensor<3x3x64x16xf16>
  kernel.return %2 : tensor<3x3x64x16xf16>
}

// -----

// The last tile extends beyond the result: its digits would name another row.
kernel.graph @beyond(%x: tensor<3x48xf16>, %cache: tensor<3x3x64x16xf16>, %at: tensor<1xi64>) -> tensor<3x3x64x16xf16> {
  // expected-error @below {{expected tiles that cut a result into whole parts of its place, got tiles of 2 elements along dimension 0 of 'tensor<3x48xf16>' in #kernel.place}}
  %0 = kernel.launch(%x) grid [m = 2, n = 3] schedule <warps = 1, stages = 1> : (tensor<3x48xf16>) -> tensor<3x48xf16> {
  ^bb0(%p: tensor<3x48xf16>):
    %t = block.load %p [[m], [n]] : tensor<3x48xf16> -> !block.tile<2x16xf16>
    block.store %t [[m], [n]] : !block.tile<2x16xf16>
  }
  %1 = kernel.reshape %0 : (tensor<3x48xf16>) -> tensor<3x3x1x16xf16>
  %2 = kernel.index_copy %cache, %at, %1 dim 2 : (tensor<3x3x64x16xf16>, tensor<1xi64>, tensor<3x3x1x16xf16>) -> tensor<3x3x64x16xf16>
  kernel.return %2 : tensor<3x3x64x16xf16>
}
