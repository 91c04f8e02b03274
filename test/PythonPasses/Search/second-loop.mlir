// A function of a norm is summed: the norm's loop comes first, and a second one goes over the row again.
// RUN: mirage-opt %s --mirage-search=max-candidates=10 2>/dev/null | FileCheck %s

// CHECK: kernel.alternatives
// CHECK: }, {
// CHECK: kernel.launch({{.*}}) grid [n = {{[0-9]+}}] {{.*}} : (tensor<8x3072xf16>, tensor<3072xf16>, tensor<3072x8192xf16>) -> tensor<8x8192xf16> {
// CHECK: ^bb0(%[[X:.*]]: tensor<8x3072xf16>,
// CHECK: %[[SQUARES:.*]] = block.loop [k = {{[0-9]+}}] {
// CHECK: block.load %[[X]] {{\[\[}}], [k]]
// CHECK-NOT: block.matmul
// CHECK: block.accumulate sum
// CHECK: block.unary rsqrt
// CHECK: %[[Y:.*]] = block.loop [k_again1 = {{[0-9]+}}] {
// CHECK: block.load %[[X]] {{\[\[}}], [k_again1]]
// CHECK: block.unary silu
// CHECK: block.matmul
// CHECK: block.accumulate sum
// CHECK: block.store %[[Y]]
// CHECK-NOT: kernel.launch
// CHECK: kernel.yield

kernel.graph @rms_silu_linear_m8(%arg0: tensor<8x3072xf16>, %arg1: tensor<3072xf16>, %arg2: tensor<3072x8192xf16>) -> tensor<8x8192xf16> attributes {form = #kernel.form<reference>} {
  %0 = kernel.rms_norm %arg0, %arg1 eps 1.000000e-06 dims 1 : (tensor<8x3072xf16>, tensor<3072xf16>) -> tensor<8x3072xf16>
  %1 = kernel.unary silu %0 : (tensor<8x3072xf16>) -> tensor<8x3072xf16>
  %2 = kernel.matmul %1, %arg2 : (tensor<8x3072xf16>, tensor<3072x8192xf16>) -> tensor<8x8192xf16>
  kernel.return %2 : tensor<8x8192xf16>
}
