// RUN: mirage-opt %s --mirage-kernels-to-launches | FileCheck %s

// What a conversion to integers cuts off is no kernel's to keep.
// CHECK-LABEL: kernel.graph @cut
// CHECK: kernel.launch
// CHECK: kernel.cast %{{.*}} : (tensor<8xf32>) -> tensor<8xi64>
kernel.graph @cut(%x: tensor<8xf16>) -> tensor<8xi64> {
  %w = kernel.cast %x : (tensor<8xf16>) -> tensor<8xf32>
  %y = kernel.cast %w : (tensor<8xf32>) -> tensor<8xi64>
  kernel.return %y : tensor<8xi64>
}
