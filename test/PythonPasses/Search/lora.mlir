// A linear layer with a low-rank adapter is one kernel: a small product, (x A) or (A B), is computed again in
// every block.
// RUN: mirage-opt %s --mirage-search=max-candidates=10 2>/dev/null | FileCheck %s

// CHECK: kernel.alternatives
// CHECK: }, {
// CHECK: kernel.launch({{.*}}) grid [d = {{[0-9]+}}] {{.*}} : (tensor<16x256xf16>, tensor<256x4096xf16>, tensor<256x16xf16>, tensor<16x4096xf16>) -> tensor<16x4096xf16> {
// CHECK: ^bb0(%[[X:.*]]: tensor<16x256xf16>, %[[W:.*]]: tensor<256x4096xf16>, %[[A:.*]]: tensor<256x16xf16>, %[[B:.*]]: tensor<16x4096xf16>):
// CHECK-DAG: block.load %[[X]]
// CHECK-DAG: block.load %[[W]]
// CHECK-DAG: block.load %[[A]]
// CHECK-DAG: block.load %[[B]]
// CHECK-DAG: block.matmul
// CHECK-DAG: block.matmul
// CHECK-DAG: block.binary add
// CHECK: block.store
// CHECK-NOT: kernel.launch
// CHECK: kernel.yield

kernel.graph @lora(%arg0: tensor<16x256xf16>, %arg1: tensor<256x4096xf16>, %arg2: tensor<256x16xf16>, %arg3: tensor<16x4096xf16>) -> tensor<16x4096xf16> attributes {form = #kernel.form<reference>} {
  %0 = kernel.matmul %arg0, %arg2 : (tensor<16x256xf16>, tensor<256x16xf16>) -> tensor<16x16xf16>
  %1 = kernel.matmul %0, %arg3 : (tensor<16x16xf16>, tensor<16x4096xf16>) -> tensor<16x4096xf16>
  %2 = kernel.matmul %arg0, %arg1 : (tensor<16x256xf16>, tensor<256x4096xf16>) -> tensor<16x4096xf16>
  %3 = kernel.binary add %2, %1 : (tensor<16x4096xf16>, tensor<16x4096xf16>) -> tensor<16x4096xf16>
  kernel.return %3 : tensor<16x4096xf16>
}
