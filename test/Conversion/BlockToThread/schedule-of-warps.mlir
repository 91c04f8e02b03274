// RUN: mirage-opt %s --mirage-assign-layouts --mirage-pipeline-loops --mirage-convert-block-to-thread --verify-diagnostics

// Nothing is late in a loop of products of single warps.

kernel.graph @warps(%x: tensor<64x64xf16>, %u: tensor<64x192xf16>, %v: tensor<192x64xf16>) -> tensor<64x64xf32> attributes {form = #kernel.form<selected>} {
  %r = kernel.launch(%x, %u, %v) grid [i = 1] schedule <warps = 4, stages = 2> : (tensor<64x64xf16>, tensor<64x192xf16>, tensor<192x64xf16>) -> tensor<64x64xf32> {
  ^bb0(%gx: tensor<64x64xf16>, %gu: tensor<64x192xf16>, %gv: tensor<192x64xf16>):
    %a = block.load %gx [[i], []] : tensor<64x64xf16> -> !block.tile<64x64xf16>
    // expected-error @+1 {{expected a scheduled loop in a launch whose products warpgroups compute}}
    %e:2 = block.loop [j = 3] {
      %b = block.load %gu [[], [j]] : tensor<64x192xf16> -> !block.tile<64x64xf16>
      %p = block.matmul %a, %b {block.order = 0 : i64, block.stage = 0 : i64} : (!block.tile<64x64xf16>, !block.tile<64x64xf16>) -> !block.tile<64x64xf32>
      %s = block.unary silu %p {block.order = 1 : i64, block.stage = 0 : i64} : (!block.tile<64x64xf32>) -> !block.tile<64x64xf32>
      %t = block.reduce sum %p dims [1] {block.order = 4 : i64, block.stage = 0 : i64} : (!block.tile<64x64xf32>) -> !block.tile<64x1xf32>
      %c = block.cast %s {block.order = 2 : i64, block.stage = 0 : i64} : (!block.tile<64x64xf32>) -> !block.tile<64x64xf16>
      %d = block.load %gv [[j], []] : tensor<192x64xf16> -> !block.tile<64x64xf16>
      %o = block.matmul %c, %d {block.order = 3 : i64, block.stage = 0 : i64} : (!block.tile<64x64xf16>, !block.tile<64x64xf16>) -> !block.tile<64x64xf32>
      block.accumulate sum %o, sum %t : !block.tile<64x64xf32>, !block.tile<64x1xf32>
    } : !block.tile<64x64xf32>, !block.tile<64x1xf32>
    %f = block.binary add %e#0, %e#1 : (!block.tile<64x64xf32>, !block.tile<64x1xf32>) -> !block.tile<64x64xf32>
    block.store %f [[i], []] : !block.tile<64x64xf32>
  }
  kernel.return %r : tensor<64x64xf32>
}
