// RUN: mirage-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: kernel.graph @neutral
// CHECK-SAME:    (%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT:    kernel.return %[[X]]
kernel.graph @neutral(%x: tensor<4xf32>) -> tensor<4xf32> {
  %one = kernel.constant 1.0 : tensor<f32>
  %zero = kernel.constant 0.0 : tensor<f32>
  %0 = kernel.binary mul %one, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = kernel.binary div %0, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = kernel.binary add %zero, %1 : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = kernel.binary sub %2, %zero : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  kernel.return %3 : tensor<4xf32>
}

// A constant is the number in `exact` if it has one: the same double may be two constants, and a number that
// is only close to 1 is not 1.
// CHECK-LABEL: kernel.graph @exact
// CHECK:         %[[A:.*]] = kernel.constant 1.000000e+00 {exact = "36028797018963969/36028797018963968"}
// CHECK:         %[[B:.*]] = kernel.constant 1.000000e+00 {exact = "72057594037927937/72057594037927936"}
// CHECK:         kernel.binary mul %{{.*}}, %[[A]]
// CHECK:         kernel.binary mul %{{.*}}, %[[B]]
kernel.graph @exact(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = kernel.constant 1.0 {exact = "36028797018963969/36028797018963968"} : tensor<f32>
  %b = kernel.constant 1.0 {exact = "72057594037927937/72057594037927936"} : tensor<f32>
  %c = kernel.constant 1.0 {exact = "36028797018963969/36028797018963968"} : tensor<f32>
  %0 = kernel.binary mul %x, %a : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = kernel.binary mul %0, %b : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = kernel.binary mul %1, %c : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  kernel.return %2 : tensor<4xf32>
}

// 1 / x and 0 - x are not x.
// CHECK-LABEL: kernel.graph @not_neutral
// CHECK:         kernel.binary div
// CHECK:         kernel.binary sub
kernel.graph @not_neutral(%x: tensor<4xf32>) -> tensor<4xf32> {
  %one = kernel.constant 1.0 : tensor<f32>
  %zero = kernel.constant 0.0 : tensor<f32>
  %0 = kernel.binary div %one, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = kernel.binary sub %zero, %0 : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  kernel.return %1 : tensor<4xf32>
}

// CHECK-LABEL: kernel.graph @double_negation
// CHECK-SAME:    (%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT:    kernel.return %[[X]]
kernel.graph @double_negation(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = kernel.unary neg %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = kernel.unary neg %0 : (tensor<4xf32>) -> tensor<4xf32>
  kernel.return %1 : tensor<4xf32>
}

// CHECK-LABEL: kernel.graph @transposes
// CHECK-SAME:    (%[[X:.*]]: tensor<2x3x4xf32>)
// CHECK-NEXT:    %[[T:.*]] = kernel.transpose %[[X]] [2, 0, 1]
// CHECK-NEXT:    kernel.return %[[T]], %[[X]]
kernel.graph @transposes(%x: tensor<2x3x4xf32>) -> (tensor<4x2x3xf32>, tensor<2x3x4xf32>) {
  %0 = kernel.transpose %x [1, 2, 0] : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
  %1 = kernel.transpose %0 [1, 2, 0] : (tensor<3x4x2xf32>) -> tensor<4x2x3xf32>
  %2 = kernel.transpose %1 [1, 2, 0] : (tensor<4x2x3xf32>) -> tensor<2x3x4xf32>
  kernel.return %1, %2 : tensor<4x2x3xf32>, tensor<2x3x4xf32>
}

// CHECK-LABEL: kernel.graph @identities
// CHECK-SAME:    (%[[X:.*]]: tensor<4x8xf32>)
// CHECK-NEXT:    kernel.return %[[X]]
kernel.graph @identities(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = kernel.reshape %x : (tensor<4x8xf32>) -> tensor<32xf32>
  %1 = kernel.reshape %0 : (tensor<32xf32>) -> tensor<4x8xf32>
  %2 = kernel.cast %1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = kernel.reduce sum %2 dims [] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = kernel.broadcast %3 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = kernel.slice %4 [0, 0] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  kernel.return %5 : tensor<4x8xf32>
}
