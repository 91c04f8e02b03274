// RUN: mirage-opt %s --mirage-choose-engine --mirage-assign-layouts --mirage-pipeline-loops --split-input-file --verify-diagnostics

// Stages and places that are no schedule.

kernel.graph @late_first(%x: tensor<64x64xf16>, %u: tensor<64x192xf16>, %v: tensor<192x64xf16>) -> tensor<64x64xf32> attributes {form = #kernel.form<selected>} {
  %r = kernel.launch(%x, %u, %v) grid [i = 1] schedule <warps = 4, stages = 2, engine = warpgroup> : (tensor<64x64xf16>, tensor<64x192xf16>, tensor<192x64xf16>) -> tensor<64x64xf32> {
  ^bb0(%gx: tensor<64x64xf16>, %gu: tensor<64x192xf16>, %gv: tensor<192x64xf16>):
    %a = block.load %gx [[i], []] : tensor<64x64xf16> -> !block.tile<64x64xf16>
    %e:2 = block.loop [j = 3] {
      %b = block.load %gu [[], [j]] : tensor<64x192xf16> -> !block.tile<64x64xf16>
      // expected-error @+1 {{cannot be scheduled so: expected a stage from 0 to 0, got 1}}
      %p = block.matmul %a, %b {block.order = 0 : i64, block.stage = 1 : i64} : (!block.tile<64x64xf16>, !block.tile<64x64xf16>) -> !block.tile<64x64xf32>
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

// -----

kernel.graph @read_before(%x: tensor<64x64xf16>, %u: tensor<64x192xf16>, %v: tensor<192x64xf16>) -> tensor<64x64xf32> attributes {form = #kernel.form<selected>} {
  %r = kernel.launch(%x, %u, %v) grid [i = 1] schedule <warps = 4, stages = 2, engine = warpgroup> : (tensor<64x64xf16>, tensor<64x192xf16>, tensor<192x64xf16>) -> tensor<64x64xf32> {
  ^bb0(%gx: tensor<64x64xf16>, %gu: tensor<64x192xf16>, %gv: tensor<192x64xf16>):
    %a = block.load %gx [[i], []] : tensor<64x64xf16> -> !block.tile<64x64xf16>
    %e:2 = block.loop [j = 3] {
      %b = block.load %gu [[], [j]] : tensor<64x192xf16> -> !block.tile<64x64xf16>
      %p = block.matmul %a, %b {block.order = 0 : i64, block.stage = 0 : i64} : (!block.tile<64x64xf16>, !block.tile<64x64xf16>) -> !block.tile<64x64xf32>
      %s = block.unary silu %p {block.order = 2 : i64, block.stage = 0 : i64} : (!block.tile<64x64xf32>) -> !block.tile<64x64xf32>
      %t = block.reduce sum %p dims [1] {block.order = 4 : i64, block.stage = 0 : i64} : (!block.tile<64x64xf32>) -> !block.tile<64x1xf32>
      // expected-error @+1 {{cannot be scheduled so: is executed before a value that it reads}}
      %c = block.cast %s {block.order = 1 : i64, block.stage = 0 : i64} : (!block.tile<64x64xf32>) -> !block.tile<64x64xf16>
      %d = block.load %gv [[j], []] : tensor<192x64xf16> -> !block.tile<64x64xf16>
      %o = block.matmul %c, %d {block.order = 3 : i64, block.stage = 0 : i64} : (!block.tile<64x64xf16>, !block.tile<64x64xf16>) -> !block.tile<64x64xf32>
      block.accumulate sum %o, sum %t : !block.tile<64x64xf32>, !block.tile<64x1xf32>
    } : !block.tile<64x64xf32>, !block.tile<64x1xf32>
    %f = block.binary add %e#0, %e#1 : (!block.tile<64x64xf32>, !block.tile<64x1xf32>) -> !block.tile<64x64xf32>
    block.store %f [[i], []] : !block.tile<64x64xf32>
  }
  kernel.return %r : tensor<64x64xf32>
}

// -----

kernel.graph @twice(%x: tensor<64x64xf16>, %u: tensor<64x192xf16>, %v: tensor<192x64xf16>) -> tensor<64x64xf32> attributes {form = #kernel.form<selected>} {
  %r = kernel.launch(%x, %u, %v) grid [i = 1] schedule <warps = 4, stages = 2, engine = warpgroup> : (tensor<64x64xf16>, tensor<64x192xf16>, tensor<192x64xf16>) -> tensor<64x64xf32> {
  ^bb0(%gx: tensor<64x64xf16>, %gu: tensor<64x192xf16>, %gv: tensor<192x64xf16>):
    %a = block.load %gx [[i], []] : tensor<64x64xf16> -> !block.tile<64x64xf16>
    %e:2 = block.loop [j = 3] {
      %b = block.load %gu [[], [j]] : tensor<64x192xf16> -> !block.tile<64x64xf16>
      %p = block.matmul %a, %b {block.order = 0 : i64, block.stage = 0 : i64} : (!block.tile<64x64xf16>, !block.tile<64x64xf16>) -> !block.tile<64x64xf32>
      %s = block.unary silu %p {block.order = 1 : i64, block.stage = 0 : i64} : (!block.tile<64x64xf32>) -> !block.tile<64x64xf32>
      %t = block.reduce sum %p dims [1] {block.order = 3 : i64, block.stage = 0 : i64} : (!block.tile<64x64xf32>) -> !block.tile<64x1xf32>
      %c = block.cast %s {block.order = 2 : i64, block.stage = 0 : i64} : (!block.tile<64x64xf32>) -> !block.tile<64x64xf16>
      %d = block.load %gv [[j], []] : tensor<192x64xf16> -> !block.tile<64x64xf16>
      // expected-error @+1 {{expected a place of its own, got 3 again}}
      %o = block.matmul %c, %d {block.order = 3 : i64, block.stage = 0 : i64} : (!block.tile<64x64xf16>, !block.tile<64x64xf16>) -> !block.tile<64x64xf32>
      block.accumulate sum %o, sum %t : !block.tile<64x64xf32>, !block.tile<64x1xf32>
    } : !block.tile<64x64xf32>, !block.tile<64x1xf32>
    %f = block.binary add %e#0, %e#1 : (!block.tile<64x64xf32>, !block.tile<64x1xf32>) -> !block.tile<64x64xf32>
    block.store %f [[i], []] : !block.tile<64x64xf32>
  }
  kernel.return %r : tensor<64x64xf32>
}

// -----

kernel.graph @missing(%x: tensor<64x64xf16>, %u: tensor<64x192xf16>, %v: tensor<192x64xf16>) -> tensor<64x64xf32> attributes {form = #kernel.form<selected>} {
  %r = kernel.launch(%x, %u, %v) grid [i = 1] schedule <warps = 4, stages = 2, engine = warpgroup> : (tensor<64x64xf16>, tensor<64x192xf16>, tensor<192x64xf16>) -> tensor<64x64xf32> {
  ^bb0(%gx: tensor<64x64xf16>, %gu: tensor<64x192xf16>, %gv: tensor<192x64xf16>):
    %a = block.load %gx [[i], []] : tensor<64x64xf16> -> !block.tile<64x64xf16>
    %e:2 = block.loop [j = 3] {
      %b = block.load %gu [[], [j]] : tensor<64x192xf16> -> !block.tile<64x64xf16>
      %p = block.matmul %a, %b {block.order = 0 : i64, block.stage = 0 : i64} : (!block.tile<64x64xf16>, !block.tile<64x64xf16>) -> !block.tile<64x64xf32>
      %s = block.unary silu %p {block.order = 1 : i64, block.stage = 0 : i64} : (!block.tile<64x64xf32>) -> !block.tile<64x64xf32>
      // expected-error @+1 {{expected integers 'block.stage' and 'block.order', as other ops of the loop have}}
      %t = block.reduce sum %p dims [1] : (!block.tile<64x64xf32>) -> !block.tile<64x1xf32>
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

// -----

kernel.graph @negative(%x: tensor<64x64xf16>, %u: tensor<64x192xf16>, %v: tensor<192x64xf16>) -> tensor<64x64xf32> attributes {form = #kernel.form<selected>} {
  %r = kernel.launch(%x, %u, %v) grid [i = 1] schedule <warps = 4, stages = 2, engine = warpgroup> : (tensor<64x64xf16>, tensor<64x192xf16>, tensor<192x64xf16>) -> tensor<64x64xf32> {
  ^bb0(%gx: tensor<64x64xf16>, %gu: tensor<64x192xf16>, %gv: tensor<192x64xf16>):
    %a = block.load %gx [[i], []] : tensor<64x64xf16> -> !block.tile<64x64xf16>
    %e:2 = block.loop [j = 3] {
      %b = block.load %gu [[], [j]] : tensor<64x192xf16> -> !block.tile<64x64xf16>
      %p = block.matmul %a, %b {block.order = 0 : i64, block.stage = 0 : i64} : (!block.tile<64x64xf16>, !block.tile<64x64xf16>) -> !block.tile<64x64xf32>
      %s = block.unary silu %p {block.order = 1 : i64, block.stage = 0 : i64} : (!block.tile<64x64xf32>) -> !block.tile<64x64xf32>
      %t = block.reduce sum %p dims [1] {block.order = 4 : i64, block.stage = 0 : i64} : (!block.tile<64x64xf32>) -> !block.tile<64x1xf32>
      %c = block.cast %s {block.order = 2 : i64, block.stage = 0 : i64} : (!block.tile<64x64xf32>) -> !block.tile<64x64xf16>
      %d = block.load %gv [[j], []] : tensor<192x64xf16> -> !block.tile<64x64xf16>
      // expected-error @+1 {{cannot be scheduled so: expected a stage from 0 to 1, got 2}}
      %o = block.matmul %c, %d {block.order = 3 : i64, block.stage = 2 : i64} : (!block.tile<64x64xf16>, !block.tile<64x64xf16>) -> !block.tile<64x64xf32>
      block.accumulate sum %o, sum %t : !block.tile<64x64xf32>, !block.tile<64x1xf32>
    } : !block.tile<64x64xf32>, !block.tile<64x1xf32>
    %f = block.binary add %e#0, %e#1 : (!block.tile<64x64xf32>, !block.tile<64x1xf32>) -> !block.tile<64x64xf32>
    block.store %f [[i], []] : !block.tile<64x64xf32>
  }
  kernel.return %r : tensor<64x64xf32>
}
