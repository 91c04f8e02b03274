// A linear layer with a low-rank adapter is one kernel: the product with A is computed again in every block.
// RUN: mirage-opt %s --mirage-search=max-candidates=10 2>/dev/null | FileCheck %s

// CHECK: kernel.alternatives
// CHECK: }, {
// CHECK: kernel.launch({{.*}}) grid [d = {{[0-9]+}}] {{.*}} -> tensor<16x4096xf16> {
// CHECK: ^bb0(%[[X:.*]]: tensor<16x256xf16>, %[[W:.*]]: tensor<256x4096xf16>, %[[A:.*]]: tensor<256x16xf16>, %[[B:.*]]: tensor<16x4096xf16>):
// CHECK-DAG: %[[XT:.*]] = block.load %[[X]]
// CHECK-DAG: %[[WT:.*]] = block.load %[[W]]
// CHECK-DAG: %[[AT:.*]] = block.load %[[A]]
// CHECK-DAG: %[[BT:.*]] = block.load %[[B]]
// CHECK-DAG: %[[MAIN:.*]] = block.matmul %[[XT]], %[[WT]]
// CHECK-DAG: %[[LOW:.*]] = block.matmul %[[XT]], %[[AT]]
// CHECK-DAG: %[[HALF:.*]] = block.cast %[[LOW]]
// CHECK-DAG: %[[UP:.*]] = block.matmul %[[HALF]], %[[BT]]
// CHECK: block.binary add %[[MAIN]], %[[UP]]
// CHECK-NEXT: block.store
// CHECK-NOT: kernel.launch
// CHECK: kernel.yield

kernel.graph @lora(%arg0: tensor<16x256xf16>, %arg1: tensor<256x4096xf16>, %arg2: tensor<256x16xf16>, %arg3: tensor<16x4096xf16>) -> tensor<16x4096xf16> attributes {form = #kernel.form<reference>} {
  %0 = kernel.matmul %arg0, %arg2 : (tensor<16x256xf16>, tensor<256x16xf16>) -> tensor<16x16xf16>
  %1 = kernel.matmul %0, %arg3 : (tensor<16x16xf16>, tensor<16x4096xf16>) -> tensor<16x4096xf16>
  %2 = kernel.matmul %arg0, %arg1 : (tensor<16x256xf16>, tensor<256x4096xf16>) -> tensor<16x4096xf16>
  %3 = kernel.binary add %2, %1 : (tensor<16x4096xf16>, tensor<16x4096xf16>) -> tensor<16x4096xf16>
  kernel.return %3 : tensor<16x4096xf16>
}
