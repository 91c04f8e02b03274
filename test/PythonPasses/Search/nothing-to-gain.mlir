// A program of views has no kernel to write: the reference is the only candidate, and the remark says so.
// RUN: mirage-opt %s --mirage-search 2>&1 | FileCheck %s

// CHECK: remark: search: 1 candidates
// CHECK-SAME: stopped: nothing
// CHECK: kernel.alternatives
// CHECK-NOT: kernel.launch
kernel.graph @cut(%x: tensor<8x64xf16>) -> tensor<8x8xf16> {
  %y = kernel.slice %x [0, 8] : (tensor<8x64xf16>) -> tensor<8x8xf16>
  kernel.return %y : tensor<8x8xf16>
}
