// RUN: mirage-opt %s --mirage-search=max-candidates=2 2>&1 | FileCheck %s

// RMSNorm and a matrix product: the best graph is one kernel with one loop, the scaling after it.
// CHECK: remark: search: 2 candidates, best {{[0-9.]+}} us;
// CHECK-SAME: stopped: exhausted
// CHECK: module {
// CHECK: kernel.graph @rms_linear
// CHECK-SAME: form = #kernel.form<candidates>
// CHECK: kernel.alternatives(%arg0, %arg1) costs [-1.000000e+00, {{[0-9.e+]+}}, {{[0-9.e+]+}}]
// CHECK: kernel.rms_norm
// CHECK: kernel.matmul
// CHECK: kernel.yield
// CHECK: }, {
// CHECK: kernel.launch({{.*}}) grid [n = {{[0-9]+}}]
// CHECK: block.loop [k = {{[0-9]+}}]
// CHECK-COUNT-1: block.matmul
// CHECK: block.accumulate sum %{{.*}}, sum %{{.*}} :
// CHECK-NOT: block.loop
// CHECK: block.unary rsqrt
// CHECK: block.store
// CHECK: kernel.yield
// CHECK: }, {
// CHECK: kernel.launch
kernel.graph @rms_linear(%x: tensor<16x4096xf16>, %w: tensor<4096x6144xf16>) -> tensor<16x6144xf16>
    attributes {form = #kernel.form<reference>} {
  %0 = kernel.rms_norm %x eps 1.0e-06 dims 1 : (tensor<16x4096xf16>) -> tensor<16x4096xf16>
  %1 = kernel.matmul %0, %w : (tensor<16x4096xf16>, tensor<4096x6144xf16>) -> tensor<16x6144xf16>
  kernel.return %1 : tensor<16x6144xf16>
}
