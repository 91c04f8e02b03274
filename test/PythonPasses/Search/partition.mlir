// The halves of normalised rows are exchanged, which axes cannot express: the slices stay, the ops before and after them are separate parts, and all are assembled again. The join has moved to the end, where one kernel writes both of its
// parts.
// RUN: mirage-opt %s --mirage-search=max-candidates=2 2>/dev/null | FileCheck %s

// CHECK: kernel.alternatives
// CHECK: }, {
// CHECK: %[[ROWS:.*]] = kernel.launch(%{{.*}}, %{{.*}}) {{.*}} : (tensor<16x64xf16>, tensor<64x64xf16>) -> tensor<16x64xf16>
// CHECK: block.unary rsqrt
// CHECK-DAG: %[[LOW:.*]] = kernel.slice %[[ROWS]] [0, 0]
// CHECK-DAG: %[[HIGH:.*]] = kernel.slice %[[ROWS]] [0, 32]
// CHECK-NOT: kernel.slice
// CHECK: %[[HALVES:.*]]:2 = kernel.launch(%[[LOW]], %[[HIGH]]) {{.*}} -> (tensor<16x32xf16>, tensor<16x32xf16>)
// CHECK: block.unary exp
// CHECK-NOT: kernel.launch
// CHECK: kernel.concat %[[HALVES]]#0, %[[HALVES]]#1 dim 1
// CHECK: kernel.yield

kernel.graph @rotated(%x: tensor<16x64xf16>, %w: tensor<64x64xf16>) -> tensor<16x64xf16> attributes {form = #kernel.form<reference>} {
  %0 = kernel.matmul %x, %w : (tensor<16x64xf16>, tensor<64x64xf16>) -> tensor<16x64xf16>
  %1 = kernel.rms_norm %0 eps 1.000000e-06 dims 1 : (tensor<16x64xf16>) -> tensor<16x64xf16>
  %2 = kernel.slice %1 [0, 0] : (tensor<16x64xf16>) -> tensor<16x32xf16>
  %3 = kernel.slice %1 [0, 32] : (tensor<16x64xf16>) -> tensor<16x32xf16>
  %4 = kernel.concat %3, %2 dim 1 : (tensor<16x32xf16>, tensor<16x32xf16>) -> tensor<16x64xf16>
  %5 = kernel.binary add %4, %1 : (tensor<16x64xf16>, tensor<16x64xf16>) -> tensor<16x64xf16>
  %6 = kernel.softmax %5 dim 1 : (tensor<16x64xf16>) -> tensor<16x64xf16>
  kernel.return %6 : tensor<16x64xf16>
}
