// RUN: mirage-opt %s --mirage-rank 2>%t.err -o %t
// RUN: FileCheck %s < %t
// RUN: mirage-opt %t --mirage-select | FileCheck %s --check-prefix=SELECTED
// RUN: not mirage-opt %s --mirage-rank=finalists=0 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not mirage-opt %s --mirage-select --mirage-rank 2>&1 | FileCheck %s --check-prefix=FORM

// Both candidates are compiled; the one that reads x once stays, with its verdict.
// CHECK-LABEL: kernel.graph @exp
// CHECK-SAME: form = #kernel.form<verified>
// CHECK: kernel.alternatives
// CHECK-SAME: verdicts [#kernel.verdict<probable bound -67, "3 draws">]
// CHECK: kernel.unary exp
// CHECK: kernel.launch
// CHECK-SAME: grid [m = 32]
// CHECK-NOT: kernel.launch
// SELECTED: form = #kernel.form<selected>
// SELECTED: kernel.launch(%arg0) grid [m = 32]
// NONE: error: rank: expected to compile at least 1 candidate, got 0
// FORM: error: expected form 'verified', got 'selected'
kernel.graph @exp(%x: tensor<1024x64xf16>) -> tensor<1024x64xf16> attributes {form = #kernel.form<verified>} {
  %y = kernel.alternatives(%x) verdicts [#kernel.verdict<proved>, #kernel.verdict<probable bound -67, "3 draws">]
      : (tensor<1024x64xf16>) -> tensor<1024x64xf16> {
  ^bb0(%a: tensor<1024x64xf16>):
    %0 = kernel.unary exp %a : (tensor<1024x64xf16>) -> tensor<1024x64xf16>
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
  }, {
  ^bb0(%a: tensor<1024x64xf16>):
    %0 = kernel.launch(%a) grid [m = 32] : (tensor<1024x64xf16>) -> tensor<1024x64xf16> {
    ^bb0(%g: tensor<1024x64xf16>):
      %t = block.load %g [[m], []] : tensor<1024x64xf16> -> !block.tile<32x64xf16>
      %u = block.unary exp %t : (!block.tile<32x64xf16>) -> !block.tile<32x64xf32>
      block.store %u [[m], []] : !block.tile<32x64xf32>
    }
    kernel.yield %0 : tensor<1024x64xf16>
  }
  kernel.return %y : tensor<1024x64xf16>
}
