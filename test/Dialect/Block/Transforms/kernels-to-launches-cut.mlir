// RUN: mirage-opt %s --mirage-kernels-to-launches | FileCheck %s

// A conversion to integers that may change numbers does not become a kernel.
// CHECK-LABEL: kernel.graph @cut
// CHECK: kernel.launch
// CHECK: kernel.cast %{{.*}} : (tensor<8xf32>) -> tensor<8xi64>
kernel.graph @cut(%x: tensor<8xf16>) -> tensor<8xi64> {
  %w = kernel.cast %x : (tensor<8xf16>) -> tensor<8xf32>
  %y = kernel.cast %w : (tensor<8xf32>) -> tensor<8xi64>
  kernel.return %y : tensor<8xi64>
}

// Numbers that are known to be whole are kept.
// CHECK-LABEL: kernel.graph @whole
// CHECK: kernel.launch{{.*}} : (tensor<8xf32>) -> tensor<8xi64>
// CHECK: block.store {{.*}} : !block.tile<8xf32>
// CHECK-NOT: kernel.cast
// CHECK: kernel.return
kernel.graph @whole(%x: tensor<8xf32>) -> tensor<8xi64> {
  %y = kernel.cast %x whole : (tensor<8xf32>) -> tensor<8xi64>
  kernel.return %y : tensor<8xi64>
}
