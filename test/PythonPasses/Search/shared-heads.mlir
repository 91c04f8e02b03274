// Four tokens, 64 query heads on 8 heads of keys: the 8 x 4 rows that share keys are the rows of one matmul, and
// each key is read once.
// RUN: mirage-opt %s --mirage-search=max-candidates=10 2>/dev/null | FileCheck %s

// CHECK: kernel.alternatives
// CHECK: }, {
// CHECK: %[[ROWS:.*]] = kernel.reshape %{{.*}} -> tensor<8x32x128xf16>
// CHECK: kernel.launch(%[[ROWS]], %{{.*}}, %{{.*}}) grid [b = 8, n_part = {{[0-9]+}}]
// CHECK: block.load %{{.*}} : tensor<8x32x128xf16> -> !block.tile<1x32x{{[0-9]+}}xf16>
// CHECK: block.matmul {{.*}}x32x{{[0-9]+}}xf16>, {{.*}} -> !block.tile<{{.*}}x32x{{[0-9]+}}xf32>
// CHECK: block.unary exp
// CHECK: block.matmul {{.*}} -> !block.tile<{{.*}}x32x128xf32>
// CHECK: %[[OUT:.*]] = kernel.launch
// CHECK-NOT: block.matmul
// CHECK: kernel.reshape %[[OUT]] : (tensor<8x32x128xf16>) -> tensor<1x64x4x128xf16>

kernel.graph @decode_rows4_b1(%arg0: tensor<1x64x4x128xf16>, %arg1: tensor<1x8x8192x128xf16>, %arg2: tensor<1x8x8192x128xf16>) -> tensor<1x64x4x128xf16> attributes {form = #kernel.form<reference>} {
  %0 = kernel.reshape %arg1 : (tensor<1x8x8192x128xf16>) -> tensor<1x8x1x8192x128xf16>
  %1 = kernel.broadcast %0 : (tensor<1x8x1x8192x128xf16>) -> tensor<1x8x8x8192x128xf16>
  %2 = kernel.reshape %1 : (tensor<1x8x8x8192x128xf16>) -> tensor<1x64x8192x128xf16>
  %3 = kernel.transpose %2 [0, 1, 3, 2] : (tensor<1x64x8192x128xf16>) -> tensor<1x64x128x8192xf16>
  %4 = kernel.matmul %arg0, %3 : (tensor<1x64x4x128xf16>, tensor<1x64x128x8192xf16>) -> tensor<1x64x4x8192xf16>
  %5 = kernel.constant 8.8388347648318447e-02 : tensor<f16>
  %6 = kernel.binary mul %4, %5 : (tensor<1x64x4x8192xf16>, tensor<f16>) -> tensor<1x64x4x8192xf16>
  %7 = kernel.softmax %6 dim 3 : (tensor<1x64x4x8192xf16>) -> tensor<1x64x4x8192xf16>
  %8 = kernel.reshape %arg2 : (tensor<1x8x8192x128xf16>) -> tensor<1x8x1x8192x128xf16>
  %9 = kernel.broadcast %8 : (tensor<1x8x1x8192x128xf16>) -> tensor<1x8x8x8192x128xf16>
  %10 = kernel.reshape %9 : (tensor<1x8x8x8192x128xf16>) -> tensor<1x64x8192x128xf16>
  %11 = kernel.matmul %7, %10 : (tensor<1x64x4x8192xf16>, tensor<1x64x8192x128xf16>) -> tensor<1x64x4x128xf16>
  kernel.return %11 : tensor<1x64x4x128xf16>
}
