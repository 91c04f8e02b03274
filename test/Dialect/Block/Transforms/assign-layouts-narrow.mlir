// RUN: mirage-opt %s --mirage-flatten-tiles --mirage-assign-layouts | FileCheck %s
// RUN: %execute %s

// Keys of 127 elements start anywhere and are loaded one by one; values are loaded in vectors of 16 bytes,
// although loads by elements would avoid an exchange of their factor between warps.
// CHECK: #[[VECTORS:[a-z0-9]+]] = #thread.layout<reg = {{\[\[}}0, 1], [0, 2], [0, 4],
// CHECK-LABEL: kernel.graph @one_token
// CHECK: block.load %{{.*}} : tensor<1x127x128xf16> -> !block.tile<1x64x128xf16, !thread.fragment<{{.*}}, #[[VECTORS]]>>
kernel.graph @one_token(%q: tensor<1x1x128xf16>, %k: tensor<1x128x127xf16>, %v: tensor<1x127x128xf16>) -> (tensor<2x1x128xf32>, tensor<2x1x1xf32>, tensor<2x1xf32>) {
  %0:3 = kernel.launch(%q, %k, %v) grid [p = 2] schedule <warps = 4, stages = 1> : (tensor<1x1x128xf16>, tensor<1x128x127xf16>, tensor<1x127x128xf16>) -> (tensor<2x1x128xf32>, tensor<2x1x1xf32>, tensor<2x1xf32>) {
  ^bb0(%a: tensor<1x1x128xf16>, %b: tensor<1x128x127xf16>, %c: tensor<1x127x128xf16>):
    %2 = block.load %a [[], [], []] : tensor<1x1x128xf16> -> !block.tile<1x1x128xf16>
    %3 = block.reshape %2 : (!block.tile<1x1x128xf16>) -> !block.tile<128x1xf16>
    %4 = block.load %b [[], [], [p]] : tensor<1x128x127xf16> -> !block.tile<1x128x64xf16>
    %5 = block.binary mul %3, %4 : (!block.tile<128x1xf16>, !block.tile<1x128x64xf16>) -> !block.tile<1x128x64xf32>
    %6 = block.reduce sum %5 dims [1] : (!block.tile<1x128x64xf32>) -> !block.tile<1x1x64xf32>
    %7 = block.reshape %6 : (!block.tile<1x1x64xf32>) -> !block.tile<1x64x1xf32>
    %8 = block.mask %7 dim 1 [p] extent 127 fill -inf : !block.tile<1x64x1xf32>
    %9 = block.reduce max %8 dims [1] : (!block.tile<1x64x1xf32>) -> !block.tile<1x1x1xf32>
    %12 = block.binary sub %8, %9 : (!block.tile<1x64x1xf32>, !block.tile<1x1x1xf32>) -> !block.tile<1x64x1xf32>
    %13 = block.unary exp %12 : (!block.tile<1x64x1xf32>) -> !block.tile<1x64x1xf32>
    %14 = block.load %c [[], [p], []] : tensor<1x127x128xf16> -> !block.tile<1x64x128xf16>
    %15 = block.binary mul %13, %14 : (!block.tile<1x64x1xf32>, !block.tile<1x64x128xf16>) -> !block.tile<1x64x128xf32>
    %16 = block.mask %15 dim 1 [p] extent 127 fill 0.0 : !block.tile<1x64x128xf32>
    %17 = block.reduce sum %16 dims [1] : (!block.tile<1x64x128xf32>) -> !block.tile<1x1x128xf32>
    %18 = block.reduce sum %13 dims [1] : (!block.tile<1x64x1xf32>) -> !block.tile<1x1x1xf32>
    %19 = block.reshape %9 : (!block.tile<1x1x1xf32>) -> !block.tile<1x1xf32>
    block.store %17 [[p], [], []], %18 [[p], [], []], %19 [[p], []] : !block.tile<1x1x128xf32>, !block.tile<1x1x1xf32>, !block.tile<1x1xf32>
  }
  kernel.return %0#0, %0#1, %0#2 : tensor<2x1x128xf32>, tensor<2x1x1xf32>, tensor<2x1xf32>
}
