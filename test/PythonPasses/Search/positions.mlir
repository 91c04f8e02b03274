// A causal mask is made of positions: the kernel computes them, and reads nothing but its input.
// RUN: mirage-opt %s --mirage-search --mirage-stabilize --mirage-verify --mirage-select 2>/dev/null | FileCheck %s

// CHECK-LABEL: kernel.graph @causal
// CHECK-NOT: kernel.iota
// CHECK: kernel.launch(%{{[a-z0-9]+}}) grid
// CHECK-DAG: block.iota dim 0 [{{.*}}] extent 64
// CHECK-DAG: block.iota dim 0 [{{.*}}] extent 64
// CHECK: block.binary le
// CHECK: block.binary keep
// CHECK: block.unary exp
kernel.graph @causal(%x: tensor<64x64xf32>) -> tensor<64x64xf32> attributes {form = #kernel.form<reference>} {
  %i = kernel.iota dim 0 : tensor<64xi64>
  %row = kernel.reshape %i : (tensor<64xi64>) -> tensor<64x1xi64>
  %m = kernel.binary le %i, %row : (tensor<64xi64>, tensor<64x1xi64>) -> tensor<64x64xi1>
  %y = kernel.binary keep %m, %x : (tensor<64x64xi1>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %z = kernel.softmax %y dim 1 : (tensor<64x64xf32>) -> tensor<64x64xf32>
  kernel.return %z : tensor<64x64xf32>
}
