// Sums are rescaled if a running maximum has grown a lot, and once more after the loop.
// RUN: mirage-opt %s --mirage-assign-layouts --mirage-pipeline-loops --mirage-convert-block-to-thread --canonicalize --split-input-file | FileCheck %s
// RUN: %execute %s

// The number that is used changes to the maximum if the maximum exceeds it by more than 8 ln 2; the loop
// returns the maximum itself.
// CHECK-LABEL: gpu.func @lazy_0
// CHECK: iter_args(%[[SUM:[a-z0-9]+]] = %{{[0-9]+}}, %{{[a-z0-9]+}} = %{{[0-9]+}}, %[[USED:[a-z0-9]+]] = %{{[0-9]+}}, %[[TRUE:[a-z0-9]+]] =
// CHECK: %[[MOST:.*]] = thread.binary max %[[TRUE]]
// CHECK: %[[REACH:.*]] = thread.binary add %[[USED]]
// CHECK: %[[MOVES:.*]] = thread.binary lt %[[REACH]], %[[MOST]]
// CHECK-DAG: %[[NEW:.*]] = thread.binary keep %[[MOVES]], %[[MOST]]
// CHECK-DAG: %[[OLD:.*]] = thread.binary keep %{{.*}}, %[[USED]]
// CHECK: %[[NOW:.*]] = thread.binary add %[[NEW]], %[[OLD]]
// CHECK: thread.rescale %[[SUM]]
// CHECK: scf.yield %{{.*}}, %[[MOST]], %[[NOW]], %[[MOST]]
// CHECK: thread.unary exp
// CHECK: thread.rescale
kernel.graph @lazy(%x: tensor<64x256xf32>) -> (tensor<64x64xf32>, tensor<64x1xf32>) attributes {form = #kernel.form<scheduled>} {
  %y:2 = kernel.launch(%x) grid [m = 1] schedule <warps = 4, stages = 1> : (tensor<64x256xf32>) -> (tensor<64x64xf32>, tensor<64x1xf32>) {
  ^bb0(%gx: tensor<64x256xf32>):
    %f = block.constant 9.000000e+00 : !block.tile<f32>
    %a, %b = block.loop [k = 4] {
      %t = block.load %gx [[m], [k]] : tensor<64x256xf32> -> !block.tile<64x64xf32>
      %s = block.binary mul %t, %f : (!block.tile<64x64xf32>, !block.tile<f32>) -> !block.tile<64x64xf32>
      %r = block.reduce max %s dims [1] : (!block.tile<64x64xf32>) -> !block.tile<64x1xf32>
      %m = block.running_max %r : !block.tile<64x1xf32>
      %d = block.binary sub %s, %m : (!block.tile<64x64xf32>, !block.tile<64x1xf32>) -> !block.tile<64x64xf32>
      %e = block.unary exp %d : (!block.tile<64x64xf32>) -> !block.tile<64x64xf32>
      block.accumulate sum %e rescale %m, last %m : !block.tile<64x64xf32>, !block.tile<64x1xf32> rescale : !block.tile<64x1xf32>
    } : !block.tile<64x64xf32>, !block.tile<64x1xf32>
    block.store %a [[m], []], %b [[m], []] : !block.tile<64x64xf32>, !block.tile<64x1xf32>
  }
  kernel.return %y#0, %y#1 : tensor<64x64xf32>, tensor<64x1xf32>
}

// -----

// The square of the exponential is a sum of another degree: the maximum itself is used.
// CHECK-LABEL: gpu.func @square_0
// CHECK-NOT: thread.binary lt
// CHECK: gpu.return
kernel.graph @square(%x: tensor<64x256xf32>) -> tensor<64x64xf32> attributes {form = #kernel.form<scheduled>} {
  %y = kernel.launch(%x) grid [m = 1] schedule <warps = 4, stages = 1> : (tensor<64x256xf32>) -> tensor<64x64xf32> {
  ^bb0(%gx: tensor<64x256xf32>):
    %a = block.loop [k = 4] {
      %t = block.load %gx [[m], [k]] : tensor<64x256xf32> -> !block.tile<64x64xf32>
      %r = block.reduce max %t dims [1] : (!block.tile<64x64xf32>) -> !block.tile<64x1xf32>
      %m = block.running_max %r : !block.tile<64x1xf32>
      %d = block.binary sub %t, %m : (!block.tile<64x64xf32>, !block.tile<64x1xf32>) -> !block.tile<64x64xf32>
      %e = block.unary exp %d : (!block.tile<64x64xf32>) -> !block.tile<64x64xf32>
      %q = block.binary mul %e, %e : (!block.tile<64x64xf32>, !block.tile<64x64xf32>) -> !block.tile<64x64xf32>
      block.accumulate sum %q rescale %m : !block.tile<64x64xf32> rescale : !block.tile<64x1xf32>
    } : !block.tile<64x64xf32>
    block.store %a [[m], []] : !block.tile<64x64xf32>
  }
  kernel.return %y : tensor<64x64xf32>
}

// -----

// The same holds if the maximum is part of a value that is summed, if a sum that it rescales has no
// exponential of it, or if an exponential enters a sum that is not rescaled.
// CHECK-LABEL: gpu.func @used_0
// CHECK-NOT: thread.binary lt
// CHECK: gpu.return
kernel.graph @used(%x: tensor<64x256xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>) attributes {form = #kernel.form<scheduled>} {
  %y:3 = kernel.launch(%x) grid [m = 1] schedule <warps = 4, stages = 1> : (tensor<64x256xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>) {
  ^bb0(%gx: tensor<64x256xf32>):
    %a, %b, %c = block.loop [k = 4] {
      %t = block.load %gx [[m], [k]] : tensor<64x256xf32> -> !block.tile<64x64xf32>
      %r = block.reduce max %t dims [1] : (!block.tile<64x64xf32>) -> !block.tile<64x1xf32>
      %m = block.running_max %r : !block.tile<64x1xf32>
      %d = block.binary sub %t, %m : (!block.tile<64x64xf32>, !block.tile<64x1xf32>) -> !block.tile<64x64xf32>
      %e = block.unary exp %d : (!block.tile<64x64xf32>) -> !block.tile<64x64xf32>
      %p = block.binary mul %e, %m : (!block.tile<64x64xf32>, !block.tile<64x1xf32>) -> !block.tile<64x64xf32>
      %n = block.running_max %r : !block.tile<64x1xf32>
      %o = block.running_max %r : !block.tile<64x1xf32>
      %g = block.binary sub %t, %o : (!block.tile<64x64xf32>, !block.tile<64x1xf32>) -> !block.tile<64x64xf32>
      %h = block.unary exp %g : (!block.tile<64x64xf32>) -> !block.tile<64x64xf32>
      block.accumulate sum %p rescale %m, sum %t rescale %n, sum %h : !block.tile<64x64xf32>, !block.tile<64x64xf32>, !block.tile<64x64xf32> rescale : !block.tile<64x1xf32>, !block.tile<64x1xf32>
    } : !block.tile<64x64xf32>, !block.tile<64x64xf32>, !block.tile<64x64xf32>
    block.store %a [[m], []], %b [[m], []], %c [[m], []] : !block.tile<64x64xf32>, !block.tile<64x64xf32>, !block.tile<64x64xf32>
  }
  kernel.return %y#0, %y#1, %y#2 : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>
}

// -----

// Exponentials are cast to f16, since they are at most 256 times larger; a product of one may already be near
// the end of f16.
// CHECK-LABEL: gpu.func @casts_0
// CHECK: thread.binary lt
// CHECK: gpu.return
// CHECK-LABEL: gpu.func @casts_1
// CHECK-NOT: thread.binary lt
// CHECK: gpu.return
kernel.graph @casts(%x: tensor<64x256xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) attributes {form = #kernel.form<scheduled>} {
  %y = kernel.launch(%x) grid [m = 1] schedule <warps = 4, stages = 1> : (tensor<64x256xf32>) -> tensor<64x64xf32> {
  ^bb0(%gx: tensor<64x256xf32>):
    %a = block.loop [k = 4] {
      %t = block.load %gx [[m], [k]] : tensor<64x256xf32> -> !block.tile<64x64xf32>
      %r = block.reduce max %t dims [1] : (!block.tile<64x64xf32>) -> !block.tile<64x1xf32>
      %m = block.running_max %r : !block.tile<64x1xf32>
      %d = block.binary sub %t, %m : (!block.tile<64x64xf32>, !block.tile<64x1xf32>) -> !block.tile<64x64xf32>
      %e = block.unary exp %d : (!block.tile<64x64xf32>) -> !block.tile<64x64xf32>
      %h = block.cast %e : (!block.tile<64x64xf32>) -> !block.tile<64x64xf16>
      %f = block.cast %h : (!block.tile<64x64xf16>) -> !block.tile<64x64xf32>
      block.accumulate sum %f rescale %m : !block.tile<64x64xf32> rescale : !block.tile<64x1xf32>
    } : !block.tile<64x64xf32>
    block.store %a [[m], []] : !block.tile<64x64xf32>
  }
  %z = kernel.launch(%x) grid [m = 1] schedule <warps = 4, stages = 1> : (tensor<64x256xf32>) -> tensor<64x64xf32> {
  ^bb0(%gx: tensor<64x256xf32>):
    %a = block.loop [k = 4] {
      %t = block.load %gx [[m], [k]] : tensor<64x256xf32> -> !block.tile<64x64xf32>
      %r = block.reduce max %t dims [1] : (!block.tile<64x64xf32>) -> !block.tile<64x1xf32>
      %m = block.running_max %r : !block.tile<64x1xf32>
      %d = block.binary sub %t, %m : (!block.tile<64x64xf32>, !block.tile<64x1xf32>) -> !block.tile<64x64xf32>
      %e = block.unary exp %d : (!block.tile<64x64xf32>) -> !block.tile<64x64xf32>
      %p = block.binary mul %e, %t : (!block.tile<64x64xf32>, !block.tile<64x64xf32>) -> !block.tile<64x64xf32>
      %h = block.cast %p : (!block.tile<64x64xf32>) -> !block.tile<64x64xf16>
      %f = block.cast %h : (!block.tile<64x64xf16>) -> !block.tile<64x64xf32>
      block.accumulate sum %f rescale %m : !block.tile<64x64xf32> rescale : !block.tile<64x1xf32>
    } : !block.tile<64x64xf32>
    block.store %a [[m], []] : !block.tile<64x64xf32>
  }
  kernel.return %y, %z : tensor<64x64xf32>, tensor<64x64xf32>
}
