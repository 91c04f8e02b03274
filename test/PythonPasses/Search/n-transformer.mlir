// nGPT's update, two norms one inside the other: one kernel that reads every tensor once.
// RUN: mirage-opt %s --mirage-search=max-candidates=10 2>/dev/null | FileCheck %s

// CHECK: kernel.alternatives
// CHECK: }, {
// CHECK: kernel.launch({{.*}}) grid [m = 8] {{.*}} -> tensor<8x4096xf16> {
// CHECK: ^bb0(%[[X:.*]]: tensor<8x4096xf16>, %[[H:.*]]: tensor<8x4096xf16>, %[[A:.*]]: tensor<4096xf16>):
// CHECK-COUNT-3: block.load
// CHECK-NOT: block.load
// CHECK: block.reduce sum
// CHECK: block.unary rsqrt
// CHECK: block.reduce sum
// CHECK: block.unary rsqrt
// CHECK: block.store
// CHECK-NOT: kernel.launch
// CHECK: kernel.yield

kernel.graph @n_transformer(%arg0: tensor<8x4096xf16>, %arg1: tensor<8x4096xf16>, %arg2: tensor<4096xf16>) -> tensor<8x4096xf16> attributes {form = #kernel.form<reference>} {
  %0 = kernel.rms_norm %arg1 eps 1.000000e-06 dims 1 : (tensor<8x4096xf16>) -> tensor<8x4096xf16>
  %1 = kernel.binary add %0, %arg0 : (tensor<8x4096xf16>, tensor<8x4096xf16>) -> tensor<8x4096xf16>
  %2 = kernel.binary mul %arg2, %1 : (tensor<4096xf16>, tensor<8x4096xf16>) -> tensor<8x4096xf16>
  %3 = kernel.binary add %arg0, %2 : (tensor<8x4096xf16>, tensor<8x4096xf16>) -> tensor<8x4096xf16>
  %4 = kernel.rms_norm %3 eps 1.000000e-06 dims 1 : (tensor<8x4096xf16>) -> tensor<8x4096xf16>
  kernel.return %4 : tensor<8x4096xf16>
}
