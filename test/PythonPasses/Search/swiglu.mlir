// SwiGLU: one loop reads the input once for both products.
// RUN: mirage-opt %s --mirage-search=max-candidates=10 2>/dev/null | FileCheck %s

// CHECK: kernel.alternatives
// CHECK: }, {
// CHECK: kernel.launch({{.*}}) grid [n = {{[0-9]+}}] {{.*}} -> tensor<8x4096xf16> {
// CHECK: ^bb0(%[[X:.*]]: tensor<8x4096xf16>, %[[W1:.*]]: tensor<4096x4096xf16>, %[[W2:.*]]: tensor<4096x4096xf16>):
// CHECK: block.loop [k = {{[0-9]+}}] {
// CHECK: %[[XT:.*]] = block.load %[[X]] {{\[\[}}], [k]]
// CHECK-NOT: block.load %[[X]]
// CHECK: block.matmul %[[XT]],
// CHECK-NOT: block.load %[[X]]
// CHECK: block.matmul %[[XT]],
// CHECK: block.accumulate sum %{{.*}}, sum %{{.*}} :
// CHECK-NOT: block.load
// CHECK: block.unary silu
// CHECK: block.binary mul
// CHECK-NEXT: block.store
// CHECK-NOT: kernel.launch
// CHECK: kernel.yield

kernel.graph @swiglu(%arg0: tensor<8x4096xf16>, %arg1: tensor<4096x4096xf16>, %arg2: tensor<4096x4096xf16>) -> tensor<8x4096xf16> attributes {form = #kernel.form<reference>} {
  %0 = kernel.matmul %arg0, %arg1 : (tensor<8x4096xf16>, tensor<4096x4096xf16>) -> tensor<8x4096xf16>
  %1 = kernel.unary silu %0 : (tensor<8x4096xf16>) -> tensor<8x4096xf16>
  %2 = kernel.matmul %arg0, %arg2 : (tensor<8x4096xf16>, tensor<4096x4096xf16>) -> tensor<8x4096xf16>
  %3 = kernel.binary mul %1, %2 : (tensor<8x4096xf16>, tensor<8x4096xf16>) -> tensor<8x4096xf16>
  kernel.return %3 : tensor<8x4096xf16>
}
