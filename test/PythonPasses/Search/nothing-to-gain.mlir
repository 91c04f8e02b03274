// A program of views has no kernel to write: it returns a view, which PyTorch makes, and there is nothing to search.
// RUN: mirage-opt %s --mirage-search 2>&1 | FileCheck %s

// CHECK-NOT: kernel.launch
// CHECK: kernel.graph @cut
// CHECK-SAME: form<candidates>
// CHECK: kernel.external "aten.narrow.default"(%{{.*}}) {dim = 1 : i64, length = 8 : i64, start = 8 : i64}
// CHECK-NOT: kernel.alternatives
kernel.graph @cut(%x: tensor<8x64xf16>) -> tensor<8x8xf16> {
  %y = kernel.slice %x [0, 8] : (tensor<8x64xf16>) -> tensor<8x8xf16>
  kernel.return %y : tensor<8x8xf16>
}
