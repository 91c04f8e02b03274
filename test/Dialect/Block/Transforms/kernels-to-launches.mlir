// RUN: mirage-opt %s --mirage-kernels-to-launches | FileCheck %s
// RUN: %execute %s

// CHECK-LABEL: kernel.graph @ops
// CHECK: kernel.launch(%arg0, %arg1) grid [d0 = 3, d1 = 2, d2 = 2] schedule <warps = 4, stages = 3>
// CHECK: block.loop [k = 3]
// CHECK: block.load %{{.*}} {{\[\[}}d0], [d1], [k]]
// CHECK: block.load %{{.*}} {{\[\[}}k], [d2]]
// CHECK: block.matmul
// The view moves nothing.
// CHECK: kernel.reshape
// A constant becomes one of the body.
// CHECK: kernel.launch(%{{.*}}) grid
// CHECK: %[[C:.*]] = block.constant 2.5
// CHECK: block.binary mul %{{.*}}, %[[C]]
// A maximum masks elements outside of the tensor.
// CHECK: block.mask %{{.*}} dim 0 [k] extent 33 fill -inf
// CHECK: block.reduce max
kernel.graph @ops(%a: tensor<3x70x130xf16>, %b: tensor<130x100xf16>) -> (tensor<210x100xf16>, tensor<1x5xf16>) {
  %p = kernel.matmul %a, %b : (tensor<3x70x130xf16>, tensor<130x100xf16>) -> tensor<3x70x100xf16>
  %v = kernel.reshape %p : (tensor<3x70x100xf16>) -> tensor<210x100xf16>
  %c = kernel.constant 2.5 : tensor<f16>
  %m = kernel.binary mul %v, %c : (tensor<210x100xf16>, tensor<f16>) -> tensor<210x100xf16>
  %s = kernel.slice %m [0, 0] : (tensor<210x100xf16>) -> tensor<33x5xf16>
  %r = kernel.reduce max %s dims [0] : (tensor<33x5xf16>) -> tensor<1x5xf16>
  kernel.return %m, %r : tensor<210x100xf16>, tensor<1x5xf16>
}
