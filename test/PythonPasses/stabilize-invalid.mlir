// RUN: mirage-opt %s --mirage-stabilize --split-input-file --verify-diagnostics | FileCheck %s --implicit-check-not 'reduce max' --implicit-check-not running_max

// If no maximum is legal, or none is known to be large enough, the exponentials stay, and a remark says why.

// CHECK-LABEL: kernel.graph @unnormalised
// expected-remark @below {{exponential 0 of op 0: not stabilised: output 0 is proportional to power 1 of the exponential}}
kernel.graph @unnormalised(%x: tensor<16x64xf32>) -> tensor<16x1xf32> {
  %o = kernel.launch(%x) grid [m = 1] : (tensor<16x64xf32>) -> tensor<16x1xf32> {
  ^bb0(%gx: tensor<16x64xf32>):
    %t = block.load %gx [[m], []] : tensor<16x64xf32> -> !block.tile<16x64xf32>
    %e = block.unary exp %t : (!block.tile<16x64xf32>) -> !block.tile<16x64xf32>
    %s = block.reduce sum %e dims [1] : (!block.tile<16x64xf32>) -> !block.tile<16x1xf32>
    block.store %s [[m], []] : !block.tile<16x1xf32>
  }
  kernel.return %o : tensor<16x1xf32>
}

// -----

// CHECK-LABEL: kernel.graph @epsilon
// expected-remark @below {{exponential 0 of op 0: not stabilised: add of values that scale with powers 1 and 0 of an exponential}}
kernel.graph @epsilon(%x: tensor<16x64xf32>) -> tensor<16x64xf32> {
  %o = kernel.launch(%x) grid [m = 1] : (tensor<16x64xf32>) -> tensor<16x64xf32> {
  ^bb0(%gx: tensor<16x64xf32>):
    %t = block.load %gx [[m], []] : tensor<16x64xf32> -> !block.tile<16x64xf32>
    %c = block.constant 1.000000e-06 : !block.tile<f32>
    %e = block.unary exp %t : (!block.tile<16x64xf32>) -> !block.tile<16x64xf32>
    %s = block.reduce sum %e dims [1] : (!block.tile<16x64xf32>) -> !block.tile<16x1xf32>
    %d = block.binary add %s, %c : (!block.tile<16x1xf32>, !block.tile<f32>) -> !block.tile<16x1xf32>
    %y = block.binary div %e, %d : (!block.tile<16x64xf32>, !block.tile<16x1xf32>) -> !block.tile<16x64xf32>
    block.store %y [[m], []] : !block.tile<16x64xf32>
  }
  kernel.return %o : tensor<16x64xf32>
}

// -----

// Other scores in the second pass may exceed the maximum of the first.
// CHECK-LABEL: kernel.graph @other_scores
// expected-remark @+2 {{exponential 0 of op 0: not stabilised: output 0 is proportional to power -1 of the exponential}}
// expected-remark @+1 {{exponential 1 of op 0: not stabilised: output 0 is proportional to power 1 of the exponential}}
kernel.graph @other_scores(%x: tensor<16x256xf32>, %z: tensor<16x256xf32>) -> tensor<16x1xf32> {
  %o = kernel.launch(%x, %z) grid [m = 1] : (tensor<16x256xf32>, tensor<16x256xf32>) -> tensor<16x1xf32> {
  ^bb0(%gx: tensor<16x256xf32>, %gz: tensor<16x256xf32>):
    %d = block.loop [k = 4] {
      %t = block.load %gx [[m], [k]] : tensor<16x256xf32> -> !block.tile<16x64xf32>
      %e = block.unary exp %t : (!block.tile<16x64xf32>) -> !block.tile<16x64xf32>
      %s = block.reduce sum %e dims [1] : (!block.tile<16x64xf32>) -> !block.tile<16x1xf32>
      block.accumulate sum %s : !block.tile<16x1xf32>
    } : !block.tile<16x1xf32>
    %y = block.loop [l = 4] {
      %t = block.load %gz [[m], [l]] : tensor<16x256xf32> -> !block.tile<16x64xf32>
      %e = block.unary exp %t : (!block.tile<16x64xf32>) -> !block.tile<16x64xf32>
      %p = block.binary div %e, %d : (!block.tile<16x64xf32>, !block.tile<16x1xf32>) -> !block.tile<16x64xf32>
      %s = block.reduce sum %p dims [1] : (!block.tile<16x64xf32>) -> !block.tile<16x1xf32>
      block.accumulate sum %s : !block.tile<16x1xf32>
    } : !block.tile<16x1xf32>
    block.store %y [[m], []] : !block.tile<16x1xf32>
  }
  kernel.return %o : tensor<16x1xf32>
}

// -----

// CHECK-LABEL: kernel.graph @harmonic_mean
// expected-remark @+2 {{exponential 0 of op 0: not stabilised: add of reciprocals of different exponentials}}
// expected-remark @+1 {{exponential 1 of op 0: not stabilised: add of reciprocals of different exponentials}}
kernel.graph @harmonic_mean(%x: tensor<16x64xf32>, %z: tensor<16x64xf32>) -> tensor<16x1xf32> {
  %o = kernel.launch(%x, %z) grid [m = 1] : (tensor<16x64xf32>, tensor<16x64xf32>) -> tensor<16x1xf32> {
  ^bb0(%gx: tensor<16x64xf32>, %gz: tensor<16x64xf32>):
    %t = block.load %gx [[m], []] : tensor<16x64xf32> -> !block.tile<16x64xf32>
    %u = block.load %gz [[m], []] : tensor<16x64xf32> -> !block.tile<16x64xf32>
    %e = block.unary exp %t : (!block.tile<16x64xf32>) -> !block.tile<16x64xf32>
    %f = block.unary exp %u : (!block.tile<16x64xf32>) -> !block.tile<16x64xf32>
    %s = block.reduce sum %e dims [1] : (!block.tile<16x64xf32>) -> !block.tile<16x1xf32>
    %r = block.reduce sum %f dims [1] : (!block.tile<16x64xf32>) -> !block.tile<16x1xf32>
    %a = block.unary reciprocal %s : (!block.tile<16x1xf32>) -> !block.tile<16x1xf32>
    %b = block.unary reciprocal %r : (!block.tile<16x1xf32>) -> !block.tile<16x1xf32>
    %d = block.binary add %a, %b : (!block.tile<16x1xf32>, !block.tile<16x1xf32>) -> !block.tile<16x1xf32>
    %y = block.binary div %a, %d : (!block.tile<16x1xf32>, !block.tile<16x1xf32>) -> !block.tile<16x1xf32>
    block.store %y [[m], []] : !block.tile<16x1xf32>
  }
  kernel.return %o : tensor<16x1xf32>
}
