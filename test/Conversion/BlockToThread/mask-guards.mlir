// Masks that depend on positions have no effect on most tiles of a loop: these steps branch around them.
// RUN: mirage-opt %s --mirage-legalize-tiles --mirage-flatten-tiles --mirage-assign-layouts --mirage-pipeline-loops --mirage-convert-block-to-thread --canonicalize --split-input-file | FileCheck %s
// RUN: %execute %s

// If the greatest key of the tile is not beyond its least row, the scores are unchanged. Otherwise the mask
// is computed, and added. The scale comes after it, and after the maximum of a row.
// CHECK-LABEL: gpu.func @causal_0
// CHECK: thread.iota dim 0
// CHECK: scf.for
// CHECK-NOT: thread.iota
// CHECK: %[[LAST:.*]] = arith.addi %{{.*}}, %c31
// CHECK: %[[IDLE:.*]] = arith.cmpi sle, %[[LAST]], %{{.*}} : index
// CHECK: %[[MASKED:.*]] = scf.if %[[IDLE]]
// CHECK-NEXT: scf.yield %[[SCORES:[0-9]+]] :
// CHECK-NEXT: } else {
// CHECK: thread.iota dim 1
// CHECK: thread.binary le
// CHECK: thread.unary bias
// CHECK: %[[SUM:.*]] = thread.binary add %[[SCORES]]
// CHECK: scf.yield %[[SUM]]
// CHECK: thread.reduce max %[[MASKED]]
// CHECK-NOT: thread.unary bias
kernel.graph @causal(%x: tensor<64x128xf32>) -> tensor<64x1xf32> attributes {form = #kernel.form<scheduled>} {
  %y = kernel.launch(%x) grid [m = 2] schedule <warps = 4, stages = 2> : (tensor<64x128xf32>) -> tensor<64x1xf32> {
  ^bb0(%gx: tensor<64x128xf32>):
    %f = block.constant 5.000000e-01 : !block.tile<f32>
    %row = block.iota dim 0 [m] extent 64 : !block.tile<32x1xf32>
    %a = block.loop [k = 4] {
      %t = block.load %gx [[m], [k]] : tensor<64x128xf32> -> !block.tile<32x32xf32>
      %s = block.binary mul %t, %f : (!block.tile<32x32xf32>, !block.tile<f32>) -> !block.tile<32x32xf32>
      %key = block.iota dim 1 [k] extent 128 : !block.tile<1x32xf32>
      %seen = block.binary le %key, %row : (!block.tile<1x32xf32>, !block.tile<32x1xf32>) -> !block.tile<32x32xf32>
      %bias = block.unary bias %seen : (!block.tile<32x32xf32>) -> !block.tile<32x32xf32>
      %z = block.binary add %s, %bias : (!block.tile<32x32xf32>, !block.tile<32x32xf32>) -> !block.tile<32x32xf32>
      %r = block.reduce max %z dims [1] : (!block.tile<32x32xf32>) -> !block.tile<32x1xf32>
      block.accumulate max %r : !block.tile<32x1xf32>
    } : !block.tile<32x1xf32>
    block.store %a [[m], []] : !block.tile<32x1xf32>
  }
  kernel.return %y : tensor<64x1xf32>
}

// -----

// The end of the tensor: only the last tile is partial.
// CHECK-LABEL: gpu.func @tail_0
// CHECK: scf.for
// CHECK: thread.unary neg
// CHECK: %[[END:.*]] = arith.muli %{{.*}}, %c32
// CHECK: %[[INSIDE:.*]] = arith.cmpi sle, %[[END]], %c100
// CHECK: scf.if %[[INSIDE]]
// CHECK-NEXT: scf.yield
// CHECK-NEXT: } else {
// CHECK: thread.mask
// CHECK-NEXT: scf.yield
kernel.graph @tail(%x: tensor<32x100xf32>) -> tensor<32x1xf32> attributes {form = #kernel.form<scheduled>} {
  %y = kernel.launch(%x) grid [m = 1] schedule <warps = 4, stages = 2> : (tensor<32x100xf32>) -> tensor<32x1xf32> {
  ^bb0(%gx: tensor<32x100xf32>):
    %a = block.loop [k = 4] {
      %t = block.load %gx [[m], [k]] : tensor<32x100xf32> -> !block.tile<32x32xf32>
      %e = block.unary square %t : (!block.tile<32x32xf32>) -> !block.tile<32x32xf32>
      %n = block.unary neg %e : (!block.tile<32x32xf32>) -> !block.tile<32x32xf32>
      %z = block.mask %n dim 1 [k] extent 100 fill -1.000000e+30 : !block.tile<32x32xf32>
      %r = block.reduce max %z dims [1] : (!block.tile<32x32xf32>) -> !block.tile<32x1xf32>
      block.accumulate max %r : !block.tile<32x1xf32>
    } : !block.tile<32x1xf32>
    block.store %a [[m], []] : !block.tile<32x1xf32>
  }
  kernel.return %y : tensor<32x1xf32>
}

// -----

// A window, by `and`, `not` and differences of positions; a truth value that selects; one that multiplies;
// and one that another op needs too, which is computed at every step.
// CHECK-LABEL: gpu.func @window_0
// CHECK: scf.for
// CHECK: %[[SEEN:.*]] = arith.cmpi sle
// CHECK: %[[NEAR:.*]] = arith.cmpi sle
// CHECK: %[[BOTH:.*]] = arith.andi %[[SEEN]], %[[NEAR]]
// CHECK: scf.if %[[BOTH]]
// CHECK: } else {
// CHECK: thread.binary keep
// CHECK: scf.yield
// CHECK: }
// CHECK: thread.binary eq
// CHECK: scf.if
// CHECK-NEXT: scf.yield
// CHECK-NEXT: } else {
// CHECK-NEXT: thread.binary mul
// CHECK-NEXT: scf.yield
kernel.graph @window(%x: tensor<60x120xf32>) -> (tensor<60x1xf32>, tensor<60x1xf32>, tensor<60x1xf32>) attributes {form = #kernel.form<scheduled>} {
  %y:3 = kernel.launch(%x) grid [m = 2] schedule <warps = 4, stages = 2> : (tensor<60x120xf32>) -> (tensor<60x1xf32>, tensor<60x1xf32>, tensor<60x1xf32>) {
  ^bb0(%gx: tensor<60x120xf32>):
    %w = block.constant 5.000000e+01 : !block.tile<f32>
    %row = block.iota dim 0 [m] extent 60 : !block.tile<32x1xf32>
    %a, %b, %c = block.loop [k = 4] {
      %t = block.load %gx [[m], [k]] : tensor<60x120xf32> -> !block.tile<32x32xf32>
      %key = block.iota dim 1 [k] extent 120 : !block.tile<1x32xf32>
      %seen = block.binary le %key, %row : (!block.tile<1x32xf32>, !block.tile<32x1xf32>) -> !block.tile<32x32xf32>
      %d = block.binary sub %row, %key : (!block.tile<32x1xf32>, !block.tile<1x32xf32>) -> !block.tile<32x32xf32>
      %far = block.binary lt %w, %d : (!block.tile<f32>, !block.tile<32x32xf32>) -> !block.tile<32x32xf32>
      %near = block.unary not %far : (!block.tile<32x32xf32>) -> !block.tile<32x32xf32>
      %both = block.binary and %seen, %near : (!block.tile<32x32xf32>, !block.tile<32x32xf32>) -> !block.tile<32x32xf32>
      %k = block.binary keep %both, %t : (!block.tile<32x32xf32>, !block.tile<32x32xf32>) -> !block.tile<32x32xf32>
      %r = block.reduce sum %k dims [1] : (!block.tile<32x32xf32>) -> !block.tile<32x1xf32>
      %same = block.binary eq %key, %row : (!block.tile<1x32xf32>, !block.tile<32x1xf32>) -> !block.tile<32x32xf32>
      %other = block.unary not %same : (!block.tile<32x32xf32>) -> !block.tile<32x32xf32>
      %o = block.binary mul %t, %other : (!block.tile<32x32xf32>, !block.tile<32x32xf32>) -> !block.tile<32x32xf32>
      %s = block.reduce sum %o dims [1] : (!block.tile<32x32xf32>) -> !block.tile<32x1xf32>
      %n = block.reduce sum %other dims [1] : (!block.tile<32x32xf32>) -> !block.tile<32x1xf32>
      block.accumulate sum %r, sum %s, sum %n : !block.tile<32x1xf32>, !block.tile<32x1xf32>, !block.tile<32x1xf32>
    } : !block.tile<32x1xf32>, !block.tile<32x1xf32>, !block.tile<32x1xf32>
    block.store %a [[m], []], %b [[m], []], %c [[m], []] : !block.tile<32x1xf32>, !block.tile<32x1xf32>, !block.tile<32x1xf32>
  }
  kernel.return %y#0, %y#1, %y#2 : tensor<60x1xf32>, tensor<60x1xf32>, tensor<60x1xf32>
}

// -----

// Both masks one after the other: one branch skips them, and the scale comes after them.
// CHECK-LABEL: gpu.func @causal_tail_0
// CHECK: scf.for
// CHECK: %[[SEEN:.*]] = arith.cmpi sle
// CHECK: %[[INSIDE:.*]] = arith.cmpi sle, %{{.*}}, %c120
// CHECK: %[[IDLE:.*]] = arith.andi %[[SEEN]], %[[INSIDE]]
// CHECK: %[[MASKED:.*]] = scf.if %[[IDLE]]
// CHECK-NEXT: scf.yield %[[SCORES:[0-9]+]] :
// CHECK-NEXT: } else {
// CHECK: %[[SUM:.*]] = thread.binary add %[[SCORES]]
// CHECK: %[[CUT:.*]] = thread.mask %[[SUM]]
// CHECK: scf.yield %[[CUT]]
// CHECK-NOT: scf.if
// CHECK: thread.reduce max %[[MASKED]]
kernel.graph @causal_tail(%x: tensor<60x120xf32>) -> tensor<60x1xf32> attributes {form = #kernel.form<scheduled>} {
  %y = kernel.launch(%x) grid [m = 2] schedule <warps = 4, stages = 2> : (tensor<60x120xf32>) -> tensor<60x1xf32> {
  ^bb0(%gx: tensor<60x120xf32>):
    %f = block.constant 5.000000e-01 : !block.tile<f32>
    %row = block.iota dim 0 [m] extent 60 : !block.tile<32x1xf32>
    %a = block.loop [k = 4] {
      %t = block.load %gx [[m], [k]] : tensor<60x120xf32> -> !block.tile<32x32xf32>
      %s = block.binary mul %t, %f : (!block.tile<32x32xf32>, !block.tile<f32>) -> !block.tile<32x32xf32>
      %key = block.iota dim 1 [k] extent 120 : !block.tile<1x32xf32>
      %seen = block.binary le %key, %row : (!block.tile<1x32xf32>, !block.tile<32x1xf32>) -> !block.tile<32x32xf32>
      %bias = block.unary bias %seen : (!block.tile<32x32xf32>) -> !block.tile<32x32xf32>
      %z = block.binary add %s, %bias : (!block.tile<32x32xf32>, !block.tile<32x32xf32>) -> !block.tile<32x32xf32>
      %c = block.mask %z dim 1 [k] extent 120 fill 0xFFF0000000000000 : !block.tile<32x32xf32>
      %r = block.reduce max %c dims [1] : (!block.tile<32x32xf32>) -> !block.tile<32x1xf32>
      block.accumulate max %r : !block.tile<32x1xf32>
    } : !block.tile<32x1xf32>
    block.store %a [[m], []] : !block.tile<32x1xf32>
  }
  kernel.return %y : tensor<60x1xf32>
}
