// Attention of few rows over many keys: the grid splits the keys; a second kernel combines partial numerators
// and denominators (FlashDecoding).
// RUN: mirage-opt %s --mirage-search=max-candidates=10 2>/dev/null | FileCheck %s

// CHECK: kernel.alternatives
// CHECK: }, {
// CHECK: %[[PARTS:.*]]:2 = kernel.launch({{.*}}) grid [b = 2, m = {{[0-9]+}}, n_part = [[N:[0-9]+]]] {{.*}} -> (tensor<[[N]]x2x256x64xf32>, tensor<[[N]]x2x256x1xf32>)
// CHECK: block.load %{{.*}} {{\[\[}}b], {{.*}}[n_part
// CHECK: %[[E:.*]] = block.unary exp
// CHECK: %[[P:.*]] = block.cast %[[E]]
// CHECK: block.matmul %[[P]],
// CHECK-NOT: reciprocal
// CHECK: block.store %{{.*}} {{\[\[}}n_part], [b], [m], []], %{{.*}} {{\[\[}}n_part], [b], [m], []]
// CHECK: kernel.launch(%[[PARTS]]#0, %[[PARTS]]#1)
// CHECK-NOT: block.matmul
// CHECK: block.reduce sum
// CHECK: block.reduce sum
// CHECK: block.unary reciprocal
// CHECK: block.store
// CHECK-NOT: kernel.launch
// CHECK: kernel.yield

kernel.graph @attention(%arg0: tensor<2x256x64xf16>, %arg1: tensor<2x64x4096xf16>, %arg2: tensor<2x4096x64xf16>) -> tensor<2x256x64xf16> attributes {form = #kernel.form<reference>} {
  %0 = kernel.matmul %arg0, %arg1 : (tensor<2x256x64xf16>, tensor<2x64x4096xf16>) -> tensor<2x256x4096xf16>
  %1 = kernel.softmax %0 dim 2 : (tensor<2x256x4096xf16>) -> tensor<2x256x4096xf16>
  %2 = kernel.matmul %1, %arg2 : (tensor<2x256x4096xf16>, tensor<2x4096x64xf16>) -> tensor<2x256x64xf16>
  kernel.return %2 : tensor<2x256x64xf16>
}
