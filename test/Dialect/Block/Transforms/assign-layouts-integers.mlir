// RUN: mirage-opt %s --mirage-flatten-tiles --mirage-assign-layouts | FileCheck %s
// RUN: %execute %s

// Integers of 8 bytes are stored in pairs by neighbouring threads, also from a tile of floats that
// holds them: eight elements of a thread would be stored in pieces of sectors.
// CHECK: #[[PAIRS:[a-z0-9]+]] = #thread.layout<reg = {{\[\[}}0, 1], [8, 0], [16, 0], [32, 0]], lane = {{\[\[}}0, 2], [0, 4], [0, 8],
// CHECK: #[[WORDS:[a-z0-9]+]] = #thread.layout<reg = {{\[\[}}0, 1], [0, 2], {{.*}} lane = {{\[\[}}0, 4], [0, 8],
// CHECK-LABEL: kernel.graph @classes
// CHECK: block.binary eq {{.*}} #[[PAIRS]]>>
kernel.graph @classes(%x: tensor<64x1xi64>) -> tensor<64x128xi64> {
  %0 = kernel.launch(%x) grid [n = 8] schedule <warps = 2, stages = 1> : (tensor<64x1xi64>) -> tensor<64x128xi64> {
  ^bb0(%a: tensor<64x1xi64>):
    %1 = block.load %a [[], []] : tensor<64x1xi64> -> !block.tile<64x1xf32>
    %2 = block.iota dim 0 [n] extent 128 : !block.tile<16xf32>
    %3 = block.binary eq %1, %2 : (!block.tile<64x1xf32>, !block.tile<16xf32>) -> !block.tile<64x16xf32>
    block.store %3 [[], [n]] : !block.tile<64x16xf32>
  }
  kernel.return %0 : tensor<64x128xi64>
}

// A thread loads 16 bytes of i32, four elements that it holds as i64.
// CHECK-LABEL: kernel.graph @largest
// CHECK: block.load {{.*}} -> !block.tile<1x1024xi64, !thread.fragment<1x1024xi64, #[[WORDS]]>>
kernel.graph @largest(%x: tensor<8x1024xi32>) -> tensor<8x1xi64> {
  %0 = kernel.launch(%x) grid [m = 8] schedule <warps = 2, stages = 1> : (tensor<8x1024xi32>) -> tensor<8x1xi64> {
  ^bb0(%a: tensor<8x1024xi32>):
    %1 = block.load %a [[m], []] : tensor<8x1024xi32> -> !block.tile<1x1024xi64>
    %2 = block.reduce max %1 dims [1] : (!block.tile<1x1024xi64>) -> !block.tile<1x1xi64>
    block.store %2 [[m], []] : !block.tile<1x1xi64>
  }
  kernel.return %0 : tensor<8x1xi64>
}
