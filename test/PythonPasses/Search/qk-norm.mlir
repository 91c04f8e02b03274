// Attention with RMSNorm of queries and keys: both norms are in the kernel of the attention. The gains are
// multiplied before they are applied to the keys, and both norms scale the scores.
// RUN: mirage-opt %s --mirage-search=max-candidates=10 2>/dev/null | FileCheck %s

// CHECK: kernel.alternatives
// CHECK: }, {
// CHECK: kernel.launch(%[[A:.*]], %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) grid [b = 2, m = {{[0-9]+}}, n_part = [[N:[0-9]+]]] {{.*}} -> (tensor<[[N]]x2x64x64xf32>, tensor<[[N]]x2x64x1xf32>) {
// CHECK: ^bb0(%[[Q:.*]]: tensor<2x64x64xf16>, %[[K:.*]]: tensor<2x4096x64xf16>, %[[V:.*]]: tensor<2x4096x64xf16>, %[[GQ:.*]]: tensor<64xf16>, %[[GK:.*]]: tensor<64xf16>):
// CHECK: %[[L:.*]]:3 = block.loop
// CHECK-DAG: block.load %[[GQ]] {{\[\[k\]\]}}
// CHECK-DAG: block.load %[[GK]] {{\[\[k\]\]}}
// CHECK: %[[G:.*]] = block.binary mul %{{.*}}, %{{.*}} : (!block.tile<[[D:[0-9]+]]x1xf16>, !block.tile<[[D]]x1xf16>)
// CHECK: block.load %[[K]]
// CHECK: %[[GAINED:.*]] = block.binary mul %[[G]],
// CHECK: %[[S:.*]] = block.matmul %{{.*}}, %[[GAINED]]
// CHECK: block.accumulate sum %[[S]],
// CHECK: %[[R:.*]] = block.unary rsqrt
// CHECK: %[[SCALED:.*]] = block.binary mul %[[L]]#0, %[[R]]
// CHECK: block.unary rsqrt
// CHECK: %[[TWICE:.*]] = block.binary mul %[[SCALED]],
// CHECK: block.unary exp %[[TWICE]]
// CHECK: block.load %[[V]]
// CHECK: block.matmul
// CHECK: block.store %{{.*}} {{\[\[}}n_part], [b], [m], []], %{{.*}} {{\[\[}}n_part], [b], [m], []]
// CHECK: kernel.launch
// CHECK-NOT: block.matmul
// CHECK-NOT: kernel.launch
// CHECK: kernel.yield

kernel.graph @qk_norm(%arg0: tensor<2x64x64xf16>, %arg1: tensor<2x4096x64xf16>, %arg2: tensor<2x4096x64xf16>, %arg3: tensor<64xf16>, %arg4: tensor<64xf16>) -> tensor<2x64x64xf16> attributes {form = #kernel.form<reference>} {
  %0 = kernel.rms_norm %arg0, %arg3 eps 1.000000e-06 dims 1 : (tensor<2x64x64xf16>, tensor<64xf16>) -> tensor<2x64x64xf16>
  %1 = kernel.rms_norm %arg1, %arg4 eps 1.000000e-06 dims 1 : (tensor<2x4096x64xf16>, tensor<64xf16>) -> tensor<2x4096x64xf16>
  %2 = kernel.transpose %1 [0, 2, 1] : (tensor<2x4096x64xf16>) -> tensor<2x64x4096xf16>
  %3 = kernel.matmul %0, %2 : (tensor<2x64x64xf16>, tensor<2x64x4096xf16>) -> tensor<2x64x4096xf16>
  %4 = kernel.softmax %3 dim 2 : (tensor<2x64x4096xf16>) -> tensor<2x64x4096xf16>
  %5 = kernel.matmul %4, %arg2 : (tensor<2x64x4096xf16>, tensor<2x4096x64xf16>) -> tensor<2x64x64xf16>
  kernel.return %5 : tensor<2x64x64xf16>
}
