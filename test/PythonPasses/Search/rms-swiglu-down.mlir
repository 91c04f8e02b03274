// RMSNorm with a gain, SwiGLU, down projection. The norm's scale is applied after the loop, to both
// products; x times the gain may leave f16 before that, so it is multiplied in f32.
// RUN: mirage-opt %s --mirage-search=max-candidates=10 2>/dev/null | FileCheck %s

// CHECK: kernel.alternatives
// CHECK: }, {
// CHECK: %[[H:.*]] = kernel.launch({{.*}}) grid [n = {{[0-9]+}}] {{.*}} -> tensor<8x14336xf16> {
// CHECK: %[[SUMS:.*]]:3 = block.loop [k = {{[0-9]+}}] {
// CHECK-NOT: rsqrt
// CHECK: block.binary mul {{.*}} -> !block.tile<{{.*}}xf32>
// CHECK: block.matmul {{.*}}xf32>, !block.tile<{{.*}}xf32>)
// CHECK: block.accumulate sum %{{.*}}, sum %{{.*}}, sum %{{.*}} :
// CHECK-NOT: block.matmul
// CHECK: %[[R:.*]] = block.unary rsqrt
// CHECK: block.binary mul %[[SUMS]]#{{[0-2]}}, %[[R]]
// CHECK: block.unary silu
// CHECK: block.binary mul %[[SUMS]]#{{[0-2]}},
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
