// Lanes go along the columns of tensors whose last dimension is a single element, since these are the closest in
// memory: every second element of a row, and the whole row.
// RUN: mirage-opt %s --pass-pipeline='builtin.module(mirage-flatten-tiles,mirage-assign-layouts)' | FileCheck %s
// RUN: %execute %s

// CHECK: #layout = #thread.layout<{{.*}}lane = {{\[}}[8, 0], [16, 0], [0, 1], [0, 2], [0, 4]], warp = {{\[}}[0, 8]]>
// CHECK: block.load {{.*}} -> !block.tile<32x64x1xf32, !thread.fragment<32x64xf32, #layout>>
kernel.graph @halves(%x: tensor<32x64x2xf32>) -> tensor<32x64x1xf32> {
  %0 = kernel.slice %x [0, 0, 1] : (tensor<32x64x2xf32>) -> tensor<32x64x1xf32, #kernel.strides<[128, 2, 1], align = 4>>
  %1 = kernel.launch(%0) grid [] schedule <warps = 2, stages = 1> : (tensor<32x64x1xf32, #kernel.strides<[128, 2, 1], align = 4>>) -> tensor<32x64x1xf32> {
  ^bb0(%p: tensor<32x64x1xf32, #kernel.strides<[128, 2, 1], align = 4>>):
    %t = block.load %p [[], [], []] : tensor<32x64x1xf32, #kernel.strides<[128, 2, 1], align = 4>> -> !block.tile<32x64x1xf32>
    %u = block.binary add %t, %t : (!block.tile<32x64x1xf32>, !block.tile<32x64x1xf32>) -> !block.tile<32x64x1xf32>
    block.store %u [[], [], []] : !block.tile<32x64x1xf32>
  }
  kernel.return %1 : tensor<32x64x1xf32>
}
