// RUN: mirage-opt %s --mirage-search=max-candidates=2 --mirage-stabilize --mirage-verify=seed=1 --mirage-select -o %t 2>/dev/null
// RUN: FileCheck %s < %t
// RUN: %execute %t --meaning %s

// Attention through all stages: the result is kernels with running maxima, and no verdict is missing.
// CHECK-LABEL: kernel.graph @attention
// CHECK-SAME: form = #kernel.form<selected>
// CHECK: kernel.launch
// CHECK: block.unary exp
// CHECK-NOT: kernel.alternatives
// CHECK-NOT: kernel.softmax
// CHECK: kernel.return
kernel.graph @attention(%q: tensor<8x16x64xf16>, %k: tensor<8x64x1024xf16>, %v: tensor<8x1024x64xf16>) -> tensor<8x16x64xf16>
    attributes {form = #kernel.form<reference>} {
  %0 = kernel.matmul %q, %k : (tensor<8x16x64xf16>, tensor<8x64x1024xf16>) -> tensor<8x16x1024xf16>
  %1 = kernel.softmax %0 dim 2 : (tensor<8x16x1024xf16>) -> tensor<8x16x1024xf16>
  %2 = kernel.matmul %1, %v : (tensor<8x16x1024xf16>, tensor<8x1024x64xf16>) -> tensor<8x16x64xf16>
  kernel.return %2 : tensor<8x16x64xf16>
}
