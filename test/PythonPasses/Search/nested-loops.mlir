// Even a block's part of the hidden layer is too wide for a tile, and rows are too long for one: a loop runs
// over the hidden layer, and another one inside it over the row. Another kernel adds the blocks' results.
// RUN: mirage-opt %s --mirage-search=max-candidates=10 2>/dev/null | FileCheck %s

// CHECK: kernel.alternatives
// CHECK: }, {
// CHECK: %[[PARTS:.*]] = kernel.launch({{.*}}) grid [n_part = {{[0-9]+}}] {{.*}} : (tensor<8x2048xf16>, tensor<2048x262144xf16>, tensor<262144x64xf16>) -> tensor<{{[0-9]+}}x8x64xf32> {
// CHECK: ^bb0(%[[X:.*]]: tensor<8x2048xf16>, %[[W1:.*]]: tensor<2048x262144xf16>, %[[W2:.*]]: tensor<262144x64xf16>):
// CHECK-NEXT: %[[Y:.*]] = block.loop [n = {{[0-9]+}}] {
// CHECK-NEXT: %[[SUM:.*]] = block.loop [k = {{[0-9]+}}] {
// CHECK-DAG: %[[XT:.*]] = block.load %[[X]] {{\[\[}}], [k]]
// CHECK-DAG: %[[WT:.*]] = block.load %[[W1]] {{\[\[}}k], [n_part, n]]
// CHECK: %[[P:.*]] = block.matmul %[[XT]], %[[WT]]
// CHECK-NEXT: block.accumulate sum %[[P]]
// CHECK: %[[H:.*]] = block.unary silu %[[SUM]]
// CHECK: %[[VT:.*]] = block.load %[[W2]] {{\[\[}}n_part, n], []]
// CHECK: %[[HT:.*]] = block.cast %[[H]]
// CHECK: %[[Q:.*]] = block.matmul %[[HT]], %[[VT]]
// CHECK-NEXT: block.accumulate sum %[[Q]]
// CHECK: block.store
// CHECK: kernel.launch(%[[PARTS]]) grid
// CHECK-NOT: block.matmul
// CHECK: block.reduce sum
// CHECK-NOT: kernel.launch
// CHECK: kernel.yield

kernel.graph @wide_hidden(%arg0: tensor<8x2048xf16>, %arg1: tensor<2048x262144xf16>, %arg2: tensor<262144x64xf16>) -> tensor<8x64xf16> attributes {form = #kernel.form<reference>} {
  %0 = kernel.matmul %arg0, %arg1 : (tensor<8x2048xf16>, tensor<2048x262144xf16>) -> tensor<8x262144xf16>
  %1 = kernel.unary silu %0 : (tensor<8x262144xf16>) -> tensor<8x262144xf16>
  %2 = kernel.matmul %1, %arg2 : (tensor<8x262144xf16>, tensor<262144x64xf16>) -> tensor<8x64xf16>
  kernel.return %2 : tensor<8x64xf16>
}
