// RUN: mirage-opt %s --mirage-select --verify-diagnostics --split-input-file | FileCheck %s

// The alternatives are replaced by the cheapest candidate's kernels: here those of the one that reads x once.
// CHECK-LABEL: kernel.graph @exp
// CHECK-SAME: form = #kernel.form<selected>
// CHECK-NOT: kernel.alternatives
// CHECK: %[[Y:.*]] = kernel.launch(%arg0) grid [m = 32]
// CHECK-NOT: kernel.launch
// CHECK: kernel.return %[[Y]]
kernel.graph @exp(%x: tensor<1024x64xf16>) -> tensor<1024x64xf16> attributes {form = #kernel.form<verified>} {
  %y = kernel.alternatives(%x) verdicts [#kernel.verdict<proved>, #kernel.verdict<probable bound -67, "3 draws">]
      : (tensor<1024x64xf16>) -> tensor<1024x64xf16> {
  ^bb0(%a: tensor<1024x64xf16>):
    %0 = kernel.unary exp %a : (tensor<1024x64xf16>) -> tensor<1024x64xf16>
    kernel.yield %0 : tensor<1024x64xf16>
  }, {
  ^bb0(%a: tensor<1024x64xf16>):
    %0 = kernel.launch(%a) grid [m = 32] : (tensor<1024x64xf16>) -> tensor<1024x64xf16> {
    ^bb0(%g: tensor<1024x64xf16>):
      %t = block.load %g [[m], []] : tensor<1024x64xf16> -> !block.tile<32x64xf16>
      %u = block.unary exp %t : (!block.tile<32x64xf16>) -> !block.tile<32x64xf32>
      block.store %u [[m], []] : !block.tile<32x64xf32>
    }
    kernel.yield %0 : tensor<1024x64xf16>
  }, {
  ^bb0(%a: tensor<1024x64xf16>):
    %0 = kernel.launch(%a) grid [m = 16] : (tensor<1024x64xf16>) -> tensor<1024x64xf16> {
    ^bb0(%g: tensor<1024x64xf16>):
      %t = block.load %g [[m], []] : tensor<1024x64xf16> -> !block.tile<64x64xf16>
      block.store %t [[m], []] : !block.tile<64x64xf16>
    }
    %1 = kernel.launch(%0) grid [m = 16] : (tensor<1024x64xf16>) -> tensor<1024x64xf16> {
    ^bb0(%g: tensor<1024x64xf16>):
      %t = block.load %g [[m], []] : tensor<1024x64xf16> -> !block.tile<64x64xf16>
      %u = block.unary exp %t : (!block.tile<64x64xf16>) -> !block.tile<64x64xf32>
      block.store %u [[m], []] : !block.tile<64x64xf32>
    }
    kernel.yield %1 : tensor<1024x64xf16>
  }
  kernel.return %y : tensor<1024x64xf16>
}

// -----

// Without a candidate the reference stays, with a remark.
// CHECK-LABEL: kernel.graph @nothing
// CHECK: kernel.unary exp
// expected-warning @below {{select: 1 of the parts have no verified candidate}}
kernel.graph @nothing(%x: tensor<8xf32>) -> tensor<8xf32> attributes {form = #kernel.form<verified>} {
  %y = kernel.alternatives(%x) verdicts [] : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>):
    %0 = kernel.unary exp %a : (tensor<8xf32>) -> tensor<8xf32>
    kernel.yield %0 : tensor<8xf32>
  }
  kernel.return %y : tensor<8xf32>
}
