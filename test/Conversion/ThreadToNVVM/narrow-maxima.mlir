// Maxima of integers that fit in 32 bits are computed in as many.
// RUN: mirage-opt %s --pass-pipeline='builtin.module(gpu.module(mirage-convert-thread-to-nvvm,canonicalize))' | FileCheck %s
#pair = #thread.layout<reg = [[0, 32]], lane = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]]>
#row = #thread.layout<reg = [], lane = [[0, 0], [0, 0], [0, 0], [0, 0], [0, 0]]>
!long = !thread.fragment<1x64xi64, #pair>
!one = !thread.fragment<1x1xi64, #row>
gpu.module @kernels {
  // CHECK-LABEL: gpu.func @words
  // CHECK: arith.maxsi {{.*}} : i32
  // CHECK-COUNT-5: nvvm.shfl.sync bfly {{.*}} : i32 -> i32
  // CHECK: arith.extsi {{.*}} : i32 to i64
  gpu.func @words(%a: memref<1x64xi32>, %b: memref<1x1xi64>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %x = thread.load_global %a[%c0, %c0] dims [0, 1] in_bounds [true, true] : memref<1x64xi32> -> !long
    %m = thread.reduce max %x dim 1 : !long -> !one
    thread.store_global %m, %b[%c0, %c0] dims [0, 1] in_bounds [true, true] : !one, memref<1x1xi64>
    gpu.return
  }
  // Places of elements, counted backwards, or 0: 63 is the greatest.
  // CHECK-LABEL: gpu.func @places
  // CHECK: arith.maxsi {{.*}} : i32
  gpu.func @places(%a: memref<1x64xi64>, %b: memref<1x1xi64>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %x = thread.load_global %a[%c0, %c0] dims [0, 1] in_bounds [true, true] : memref<1x64xi64> -> !long
    %i = thread.iota dim 1 at %c0 : !long
    %y = thread.integers %x, %i ["load 0", "load 1", "constant 63 : i64", "sub 2 1 : i64", "keep 0 3 : i64"] : (!long, !long) -> !long
    %m = thread.reduce max %y dim 1 : !long -> !one
    thread.store_global %m, %b[%c0, %c0] dims [0, 1] in_bounds [true, true] : !one, memref<1x1xi64>
    gpu.return
  }
  // Those of 64 bits are not narrow, and the difference of two words is not one.
  // CHECK-LABEL: gpu.func @long
  // CHECK: arith.maxsi {{.*}} : i64
  gpu.func @long(%a: memref<1x64xi64>, %b: memref<1x1xi64>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %x = thread.load_global %a[%c0, %c0] dims [0, 1] in_bounds [true, true] : memref<1x64xi64> -> !long
    %m = thread.reduce max %x dim 1 : !long -> !one
    thread.store_global %m, %b[%c0, %c0] dims [0, 1] in_bounds [true, true] : !one, memref<1x1xi64>
    gpu.return
  }
  // CHECK-LABEL: gpu.func @difference
  // CHECK: arith.maxsi {{.*}} : i64
  gpu.func @difference(%a: memref<1x64xi32>, %b: memref<1x1xi64>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %x = thread.load_global %a[%c0, %c0] dims [0, 1] in_bounds [true, true] : memref<1x64xi32> -> !long
    %y = thread.integers %x ["load 0", "square 0 : i64"] : (!long) -> !long
    %m = thread.reduce max %y dim 1 : !long -> !one
    thread.store_global %m, %b[%c0, %c0] dims [0, 1] in_bounds [true, true] : !one, memref<1x1xi64>
    gpu.return
  }
}
