// Threads access neighbours together whose tensors, slices of one tensor or parts of one join, lie between each
// other's elements: kernels know the distance of these, and address them from one.
// RUN: mirage-opt %s --pass-pipeline='builtin.module(kernel.graph(mirage-view-tensors),mirage-flatten-tiles,mirage-assign-layouts,mirage-pipeline-loops,mirage-convert-block-to-thread,canonicalize)' | FileCheck %s
// RUN: %execute %s

// The results are neighbours in the join; the slices are far apart.
// CHECK-LABEL: gpu.func @pairs_0
// CHECK-NOT: thread.interleaved
// CHECK: memref<8x16xf16, strided<[32, 2]>> {thread.align = 16 : i64, thread.interleaved = array<i64: 2, 0>}
// CHECK-SAME: memref<8x16xf16, strided<[32, 2]>> {thread.align = 2 : i64, thread.interleaved = array<i64: 2, 1>}
kernel.graph @pairs(%x: tensor<2x8x16xf16>) -> tensor<8x16x2xf16> {
  %0 = kernel.slice %x [0, 0, 0] : (tensor<2x8x16xf16>) -> tensor<1x8x16xf16>
  %1 = kernel.slice %x [1, 0, 0] : (tensor<2x8x16xf16>) -> tensor<1x8x16xf16>
  %a = kernel.reshape %0 : (tensor<1x8x16xf16>) -> tensor<8x16xf16>
  %b = kernel.reshape %1 : (tensor<1x8x16xf16>) -> tensor<8x16xf16>
  %2:2 = kernel.launch(%a, %b) grid [] schedule <warps = 1, stages = 1> : (tensor<8x16xf16>, tensor<8x16xf16>) -> (tensor<8x16xf16>, tensor<8x16xf16>) {
  ^bb0(%p: tensor<8x16xf16>, %q: tensor<8x16xf16>):
    %s = block.load %p [[], []] : tensor<8x16xf16> -> !block.tile<8x16xf16>
    %t = block.load %q [[], []] : tensor<8x16xf16> -> !block.tile<8x16xf16>
    block.store %s [[], []], %t [[], []] : !block.tile<8x16xf16>, !block.tile<8x16xf16>
  }
  %3 = kernel.reshape %2#0 : (tensor<8x16xf16>) -> tensor<8x16x1xf16>
  %4 = kernel.reshape %2#1 : (tensor<8x16xf16>) -> tensor<8x16x1xf16>
  %5 = kernel.concat %3, %4 dim 2 : (tensor<8x16x1xf16>, tensor<8x16x1xf16>) -> tensor<8x16x2xf16>
  kernel.return %5 : tensor<8x16x2xf16>
}

// The slices are neighbours; the halves of the result are far apart. A kernel that does the same with other tensors
// is another one.
// CHECK-LABEL: gpu.func @halves_0
// CHECK-SAME: memref<8x16xf16, strided<[32, 2]>> {thread.align = 16 : i64, thread.interleaved = array<i64: 0, 0>}
// CHECK-SAME: memref<8x16xf16, strided<[32, 2]>> {thread.align = 2 : i64, thread.interleaved = array<i64: 0, 1>}
// CHECK-NOT: thread.interleaved
// CHECK-LABEL: gpu.func @halves_1
kernel.graph @halves(%x: tensor<8x16x2xf16>, %y: tensor<8x16x2xf16>) -> (tensor<2x8x16xf16>, tensor<2x8x16xf16>) {
  %0 = kernel.slice %x [0, 0, 0] : (tensor<8x16x2xf16>) -> tensor<8x16x1xf16>
  %1 = kernel.slice %x [0, 0, 1] : (tensor<8x16x2xf16>) -> tensor<8x16x1xf16>
  %z = kernel.slice %y [0, 0, 1] : (tensor<8x16x2xf16>) -> tensor<8x16x1xf16>
  %a = kernel.reshape %0 : (tensor<8x16x1xf16>) -> tensor<8x16xf16>
  %b = kernel.reshape %1 : (tensor<8x16x1xf16>) -> tensor<8x16xf16>
  %c = kernel.reshape %z : (tensor<8x16x1xf16>) -> tensor<8x16xf16>
  %2:2 = kernel.launch(%a, %b) grid [] schedule <warps = 1, stages = 1> : (tensor<8x16xf16>, tensor<8x16xf16>) -> (tensor<8x16xf16>, tensor<8x16xf16>) {
  ^bb0(%p: tensor<8x16xf16>, %q: tensor<8x16xf16>):
    %s = block.load %p [[], []] : tensor<8x16xf16> -> !block.tile<8x16xf16>
    %t = block.load %q [[], []] : tensor<8x16xf16> -> !block.tile<8x16xf16>
    block.store %s [[], []], %t [[], []] : !block.tile<8x16xf16>, !block.tile<8x16xf16>
  }
  %3:2 = kernel.launch(%a, %c) grid [] schedule <warps = 1, stages = 1> : (tensor<8x16xf16>, tensor<8x16xf16>) -> (tensor<8x16xf16>, tensor<8x16xf16>) {
  ^bb0(%p: tensor<8x16xf16>, %q: tensor<8x16xf16>):
    %s = block.load %p [[], []] : tensor<8x16xf16> -> !block.tile<8x16xf16>
    %t = block.load %q [[], []] : tensor<8x16xf16> -> !block.tile<8x16xf16>
    block.store %s [[], []], %t [[], []] : !block.tile<8x16xf16>, !block.tile<8x16xf16>
  }
  %4 = kernel.reshape %2#0 : (tensor<8x16xf16>) -> tensor<1x8x16xf16>
  %5 = kernel.reshape %2#1 : (tensor<8x16xf16>) -> tensor<1x8x16xf16>
  %6 = kernel.reshape %3#0 : (tensor<8x16xf16>) -> tensor<1x8x16xf16>
  %7 = kernel.reshape %3#1 : (tensor<8x16xf16>) -> tensor<1x8x16xf16>
  %8 = kernel.concat %4, %5 dim 0 : (tensor<1x8x16xf16>, tensor<1x8x16xf16>) -> tensor<2x8x16xf16>
  %9 = kernel.concat %6, %7 dim 0 : (tensor<1x8x16xf16>, tensor<1x8x16xf16>) -> tensor<2x8x16xf16>
  kernel.return %8, %9 : tensor<2x8x16xf16>, tensor<2x8x16xf16>
}

// Single elements are tensors of their own: an access of several would reach beyond the end.
// CHECK-LABEL: gpu.func @single_0
// CHECK-NOT: thread.interleaved
kernel.graph @single(%x: tensor<3x1xf32>, %y: tensor<16x32xf32>) -> tensor<16x32xf32> {
  %a = kernel.slice %x [0, 0] : (tensor<3x1xf32>) -> tensor<1x1xf32>
  %b = kernel.slice %x [1, 0] : (tensor<3x1xf32>) -> tensor<1x1xf32>
  %c = kernel.slice %x [2, 0] : (tensor<3x1xf32>) -> tensor<1x1xf32>
  %0 = kernel.launch(%a, %b, %c, %y) grid [] schedule <warps = 1, stages = 1> : (tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>, tensor<16x32xf32>) -> tensor<16x32xf32> {
  ^bb0(%p: tensor<1x1xf32>, %q: tensor<1x1xf32>, %r: tensor<1x1xf32>, %s: tensor<16x32xf32>):
    %t = block.load %s [[], []] : tensor<16x32xf32> -> !block.tile<16x32xf32>
    %u = block.load %p [[], []] : tensor<1x1xf32> -> !block.tile<1x1xf32>
    %v = block.load %q [[], []] : tensor<1x1xf32> -> !block.tile<1x1xf32>
    %k = block.binary mul %t, %u : (!block.tile<16x32xf32>, !block.tile<1x1xf32>) -> !block.tile<16x32xf32>
    %l = block.binary sub %k, %v : (!block.tile<16x32xf32>, !block.tile<1x1xf32>) -> !block.tile<16x32xf32>
    %w = block.load %r [[], []] : tensor<1x1xf32> -> !block.tile<1x1xf32>
    %m = block.binary mul %l, %w : (!block.tile<16x32xf32>, !block.tile<1x1xf32>) -> !block.tile<16x32xf32>
    block.store %m [[], []] : !block.tile<16x32xf32>
  }
  kernel.return %0 : tensor<16x32xf32>
}
