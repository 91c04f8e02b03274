// RUN: mirage-opt %s --pass-pipeline='builtin.module(kernel.graph(mirage-decompose))' | FileCheck %s
// RUN: mirage-opt %s --pass-pipeline='builtin.module(kernel.graph(mirage-decompose{stable}))' | FileCheck %s --check-prefix=STABLE
// RUN: mirage-opt %s --pass-pipeline='builtin.module(kernel.graph(mirage-decompose))' | %execute - --meaning %s
// RUN: mirage-opt %s --pass-pipeline='builtin.module(kernel.graph(mirage-decompose{stable}))' | %execute - --meaning %s

// CHECK-LABEL: kernel.graph @softmax
// CHECK-SAME:    (%[[X:.*]]: tensor<4x8xf16>)
// CHECK-NEXT:    %[[W:.*]] = kernel.cast %[[X]] : (tensor<4x8xf16>) -> tensor<4x8xf32>
// CHECK-NEXT:    %[[E:.*]] = kernel.unary exp %[[W]]
// CHECK-NEXT:    %[[S:.*]] = kernel.reduce sum %[[E]] dims [1]
// CHECK-NEXT:    %[[Q:.*]] = kernel.binary div %[[E]], %[[S]]
// CHECK-NEXT:    %[[Y:.*]] = kernel.cast %[[Q]] : (tensor<4x8xf32>) -> tensor<4x8xf16>
// CHECK-NEXT:    kernel.return %[[Y]]

// STABLE-LABEL: kernel.graph @softmax
// STABLE:         %[[M:.*]] = kernel.reduce max %[[W:.*]] dims [1]
// STABLE-NEXT:    %[[D:.*]] = kernel.binary sub %[[W]], %[[M]]
// STABLE-NEXT:    kernel.unary exp %[[D]]
kernel.graph @softmax(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %0 = kernel.softmax %x dim 1 : (tensor<4x8xf16>) -> tensor<4x8xf16>
  kernel.return %0 : tensor<4x8xf16>
}

// CHECK-LABEL: kernel.graph @rms_norm
// CHECK-SAME:    (%[[X:.*]]: tensor<4x8xf32>, %[[G:.*]]: tensor<8xf32>)
// CHECK-NEXT:    %[[SQ:.*]] = kernel.unary square %[[X]]
// CHECK-NEXT:    %[[SUM:.*]] = kernel.reduce sum %[[SQ]] dims [1]
// CHECK-NEXT:    %[[N:.*]] = kernel.constant 1.250000e-01
// CHECK-NEXT:    %[[MEAN:.*]] = kernel.binary mul %[[SUM]], %[[N]]
// CHECK-NEXT:    %[[EPS:.*]] = kernel.constant 1.000000e-06
// CHECK-NEXT:    %[[A:.*]] = kernel.binary add %[[MEAN]], %[[EPS]]
// CHECK-NEXT:    %[[R:.*]] = kernel.unary rsqrt %[[A]]
// CHECK-NEXT:    %[[Y:.*]] = kernel.binary mul %[[X]], %[[R]]
// CHECK-NEXT:    %[[Z:.*]] = kernel.binary mul %[[Y]], %[[G]]
// CHECK-NEXT:    kernel.return %[[Z]]
kernel.graph @rms_norm(%x: tensor<4x8xf32>, %g: tensor<8xf32>) -> tensor<4x8xf32> {
  %0 = kernel.rms_norm %x, %g eps 1.0e-6 dims 1 : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  kernel.return %0 : tensor<4x8xf32>
}

// CHECK-LABEL: kernel.graph @layer_norm
// CHECK-NOT:     kernel.layer_norm
// CHECK:         kernel.reduce sum %{{.*}} dims [1, 2]
// CHECK:         kernel.binary sub
// CHECK:         kernel.unary square
// CHECK:         kernel.reduce sum %{{.*}} dims [1, 2]
// CHECK:         kernel.unary rsqrt
kernel.graph @layer_norm(%x: tensor<4x8x2xf32>) -> tensor<4x8x2xf32> {
  %0 = kernel.layer_norm %x eps 1.0e-6 dims 2 : (tensor<4x8x2xf32>) -> tensor<4x8x2xf32>
  kernel.return %0 : tensor<4x8x2xf32>
}
