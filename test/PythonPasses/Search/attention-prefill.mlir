// Attention over many rows: one kernel that goes over the keys once (FlashAttention).
// RUN: mirage-opt %s --mirage-search=max-candidates=10 2>/dev/null | FileCheck %s

// CHECK: kernel.alternatives
// CHECK: }, {
// CHECK: kernel.launch(%{{.*}}, %{{.*}}, %{{.*}}) grid [b = 64, m = {{[0-9]+}}] {{.*}} -> tensor<64x2048x128xf16> {
// CHECK: %[[Q:.*]] = block.load %{{.*}} {{\[\[}}b], [m], []]
// CHECK: %[[SUMS:.*]]:2 = block.loop [n = {{[0-9]+}}] {
// CHECK: block.load %{{.*}} {{\[\[}}b], [], [n]]
// CHECK: %[[S:.*]] = block.matmul %[[Q]],
// CHECK: %[[E:.*]] = block.unary exp %[[S]]
// CHECK: block.load %{{.*}} {{\[\[}}b], [n], []]
// CHECK: %[[P:.*]] = block.cast %[[E]]
// CHECK: block.matmul %[[P]],
// CHECK: block.accumulate sum %{{.*}}, sum %{{.*}} :
// CHECK: %[[R:.*]] = block.unary reciprocal
// CHECK: block.binary mul %[[SUMS]]#{{[01]}}, %[[R]]
// CHECK: block.store
// CHECK-NOT: kernel.launch
// CHECK: kernel.yield

kernel.graph @attention(%arg0: tensor<64x2048x128xf16>, %arg1: tensor<64x128x2048xf16>, %arg2: tensor<64x2048x128xf16>) -> tensor<64x2048x128xf16> attributes {form = #kernel.form<reference>} {
  %0 = kernel.matmul %arg0, %arg1 : (tensor<64x2048x128xf16>, tensor<64x128x2048xf16>) -> tensor<64x2048x2048xf16>
  %1 = kernel.softmax %0 dim 2 : (tensor<64x2048x2048xf16>) -> tensor<64x2048x2048xf16>
  %2 = kernel.matmul %1, %arg2 : (tensor<64x2048x2048xf16>, tensor<64x2048x128xf16>) -> tensor<64x2048x128xf16>
  kernel.return %2 : tensor<64x2048x128xf16>
}
