// RUN: mirage-opt %s --mirage-search=max-candidates=6 --mirage-stabilize --mirage-shortlist=candidates=2 -o %t 2>/dev/null
// RUN: FileCheck %s < %t
// RUN: not mirage-opt %s --mirage-shortlist 2>&1 | FileCheck %s --check-prefix=FORM
// RUN: not mirage-opt %t --mirage-shortlist=candidates=0 2>&1 | FileCheck %s --check-prefix=NONE

// The reference and two candidates are left.
// CHECK-LABEL: kernel.graph @softmax
// CHECK-SAME: form = #kernel.form<candidates>
// CHECK: kernel.alternatives
// CHECK: kernel.softmax
// CHECK: kernel.yield
// CHECK: kernel.launch
// CHECK: kernel.yield
// CHECK: kernel.launch
// CHECK: kernel.yield
// CHECK-NOT: kernel.yield
// FORM: error: expected form 'candidates', got 'reference'
// NONE: error: shortlist: expected to keep at least 1 candidate, got 0
kernel.graph @softmax(%x: tensor<32x256xf16>) -> tensor<32x256xf16> attributes {form = #kernel.form<reference>} {
  %y = kernel.softmax %x dim 1 : (tensor<32x256xf16>) -> tensor<32x256xf16>
  kernel.return %y : tensor<32x256xf16>
}
