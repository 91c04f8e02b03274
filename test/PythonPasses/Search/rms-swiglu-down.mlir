// RMSNorm with a gain, SwiGLU, down projection. One kernel normalises the rows, which are few compared with
// the weights; warpgroups multiply them by the weights as left factors, both products in one kernel, which
// computes the gate and the gated values.
// RUN: mirage-opt %s --mirage-search=max-candidates=10 2>/dev/null | FileCheck %s

// CHECK: kernel.alternatives
// CHECK: }, {
// CHECK: %[[X:.*]] = kernel.launch({{.*}}) grid [m = {{[0-9]+}}] {{.*}} -> tensor<8x4096xf16> {
// CHECK: block.unary square
// CHECK: block.unary rsqrt
// CHECK: %[[H:.*]] = kernel.launch({{.*}}, %[[X]]) grid [n = {{[0-9]+}}] schedule <{{.*}}engine = warpgroup> {{.*}} -> tensor<8x14336xf16> {
// CHECK-NOT: rsqrt
// CHECK: %[[SUMS:.*]]:2 = block.loop [k = {{[0-9]+}}] {
// CHECK: %[[COLUMNS:.*]] = block.transpose {{.*}} -> !block.tile<{{[0-9]+}}x8xf16>
// CHECK: block.matmul %{{.*}}, %[[COLUMNS]] :
// CHECK: block.matmul %{{.*}}, %[[COLUMNS]] :
// CHECK: block.accumulate sum %{{.*}}, sum %{{.*}} :
// CHECK-NOT: block.matmul
// CHECK-DAG: %[[UP:.*]] = block.transpose %[[SUMS]]#0
// CHECK-DAG: %[[GATE:.*]] = block.transpose %[[SUMS]]#1
// CHECK: %[[OPEN:.*]] = block.unary silu %[[GATE]]
// CHECK: block.binary mul %[[UP]], %[[OPEN]]
// CHECK: block.store
// CHECK: kernel.launch({{.*}}%[[H]]) grid
// CHECK: block.matmul
// CHECK-NOT: block.matmul
// CHECK-NOT: rsqrt
// CHECK: kernel.yield

kernel.graph @rms_swiglu_down(%arg0: tensor<8x4096xf16>, %arg1: tensor<4096xf16>, %arg2: tensor<4096x14336xf16>, %arg3: tensor<4096x14336xf16>, %arg4: tensor<14336x4096xf16>) -> tensor<8x4096xf16> attributes {form = #kernel.form<reference>} {
  %0 = kernel.rms_norm %arg0, %arg1 eps 1.000000e-06 dims 1 : (tensor<8x4096xf16>, tensor<4096xf16>) -> tensor<8x4096xf16>
  %1 = kernel.matmul %0, %arg2 : (tensor<8x4096xf16>, tensor<4096x14336xf16>) -> tensor<8x14336xf16>
  %2 = kernel.unary silu %1 : (tensor<8x14336xf16>) -> tensor<8x14336xf16>
  %3 = kernel.matmul %0, %arg3 : (tensor<8x4096xf16>, tensor<4096x14336xf16>) -> tensor<8x14336xf16>
  %4 = kernel.binary mul %2, %3 : (tensor<8x14336xf16>, tensor<8x14336xf16>) -> tensor<8x14336xf16>
  %5 = kernel.matmul %4, %arg4 : (tensor<8x14336xf16>, tensor<14336x4096xf16>) -> tensor<8x4096xf16>
  kernel.return %5 : tensor<8x4096xf16>
}
