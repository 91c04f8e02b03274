// RMSNorm with gain, then a linear layer: one kernel, with the sum of squares next to the product, and the
// scaling after the loop.
// RUN: mirage-opt %s --mirage-search=max-candidates=10 2>/dev/null | FileCheck %s

// CHECK: kernel.alternatives
// CHECK: kernel.rms_norm
// CHECK: }, {
// CHECK: kernel.launch(%{{.*}}, %{{.*}}, %{{.*}}) grid [n = {{[0-9]+}}] {{.*}} -> tensor<8x6144xf16> {
// CHECK: %[[SUMS:.*]]:2 = block.loop [k = {{[0-9]+}}] {
// CHECK-NOT: rsqrt
// CHECK-DAG: block.unary square
// CHECK-DAG: block.matmul
// CHECK: block.accumulate sum %{{.*}}, sum %{{.*}} :
// CHECK-NOT: block.loop
// CHECK-NOT: block.matmul
// CHECK: %[[R:.*]] = block.unary rsqrt
// CHECK-NEXT: block.binary mul %[[SUMS]]#{{[01]}}, %[[R]]
// CHECK-NEXT: block.store
// CHECK-NOT: kernel.launch
// CHECK: kernel.yield

kernel.graph @rms_linear(%arg0: tensor<8x4096xf16>, %arg1: tensor<4096xf16>, %arg2: tensor<4096x6144xf16>) -> tensor<8x6144xf16> attributes {form = #kernel.form<reference>} {
  %0 = kernel.rms_norm %arg0, %arg1 eps 1.000000e-06 dims 1 : (tensor<8x4096xf16>, tensor<4096xf16>) -> tensor<8x4096xf16>
  %1 = kernel.matmul %0, %arg2 : (tensor<8x4096xf16>, tensor<4096x6144xf16>) -> tensor<8x6144xf16>
  kernel.return %1 : tensor<8x6144xf16>
}
