// RUN: mirage-opt %s --mirage-verify=seed=1 --verify-diagnostics | FileCheck %s

// Only equivalent candidates remain, each with its verdict.
// CHECK-LABEL: kernel.graph @square
// CHECK-SAME: form = #kernel.form<verified>
// CHECK: kernel.alternatives(%arg0) verdicts [#kernel.verdict<{{proved|probable bound -[0-9]+}}, "{{.*}}">] :
// CHECK: kernel.binary mul
// CHECK: kernel.unary square
// CHECK-NOT: kernel.unary abs
// CHECK: kernel.return
// expected-warning @below {{verify: candidate 1 was dropped: refuted}}
kernel.graph @square(%x: tensor<8xf32>) -> tensor<8xf32> attributes {form = #kernel.form<candidates>} {
  %y = kernel.alternatives(%x) : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>):
    %0 = kernel.binary mul %a, %a : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    kernel.yield %0 : tensor<8xf32>
  }, {
  ^bb0(%a: tensor<8xf32>):
    %0 = kernel.unary square %a : (tensor<8xf32>) -> tensor<8xf32>
    kernel.yield %0 : tensor<8xf32>
  }, {
  ^bb0(%a: tensor<8xf32>):
    %0 = kernel.unary abs %a : (tensor<8xf32>) -> tensor<8xf32>
    kernel.yield %0 : tensor<8xf32>
  }
  kernel.return %y : tensor<8xf32>
}
