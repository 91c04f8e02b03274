// Launches that mirage-choose-engine would reset.
// RUN: mirage-opt %s --mirage-assign-layouts --mirage-pipeline-loops --mirage-convert-block-to-thread --verify-diagnostics

kernel.graph @odd_grid(%a: tensor<192x64xf16>, %b: tensor<64x64xf16>) -> tensor<192x64xf32> {
  // expected-error @+1 {{cannot run in clusters of 2 blocks: expected an axis of a multiple of 2 blocks along which loops load the same tiles, of a multiple of 16 rows, got a grid of m = 3, n = 1}}
  %r = kernel.launch(%a, %b) grid [m = 3, n = 1] schedule <warps = 4, stages = 2, engine = warpgroup, cluster = 2> : (tensor<192x64xf16>, tensor<64x64xf16>) -> tensor<192x64xf32> {
  ^bb0(%ga: tensor<192x64xf16>, %gb: tensor<64x64xf16>):
    %s = block.loop [k = 4] {
      %x = block.load %ga [[m], [k]] : tensor<192x64xf16> -> !block.tile<64x16xf16>
      %y = block.load %gb [[k], [n]] : tensor<64x64xf16> -> !block.tile<16x64xf16>
      %p = block.matmul %x, %y : (!block.tile<64x16xf16>, !block.tile<16x64xf16>) -> !block.tile<64x64xf32>
      block.accumulate sum %p : !block.tile<64x64xf32>
    } : !block.tile<64x64xf32>
    block.store %s [[m], [n]] : !block.tile<64x64xf32>
  }
  kernel.return %r : tensor<192x64xf32>
}
