// RUN: mirage-opt %s --pass-pipeline='builtin.module(kernel.graph(mirage-view-tensors),mirage-flatten-tiles,mirage-assign-layouts,mirage-pipeline-loops,mirage-convert-block-to-thread,canonicalize)' --split-input-file | FileCheck %s

// The index of the row is read first; an index that is not a row of the cache stores nothing.
// CHECK-LABEL: gpu.func @cached_0
// CHECK-SAME: (%{{.*}}: memref<3x32xf16>, %[[AT:.*]]: memref<1x1xi64>, %[[CACHE:.*]]: memref<64x3x2x16xf16, strided<[16, 2048, 1024, 1]>>)
// CHECK: %[[LOADED:.*]] = memref.load %[[AT]]
// CHECK: %[[THERE:.*]] = arith.cmpi ult, %[[LOADED]], %c64_i64 : i64
// CHECK: %[[INDEX:.*]] = arith.index_cast %[[LOADED]]
// CHECK: %[[ROW:.*]] = arith.select %[[THERE]], %[[INDEX]], %c0
// CHECK: %[[PLACE:.*]] = arith.remui %[[COLUMN:.*]], %c16
// CHECK: %[[HEAD:.*]] = arith.divui %[[COLUMN]], %c16
// CHECK: thread.store_global %{{.*}}, %[[CACHE]][%[[ROW]], %c0, %[[HEAD]], %[[PLACE]]] dims [1, 3] {{.*}}when %[[THERE]]
kernel.graph @cached(%x: tensor<3x32xf16>, %cache: tensor<3x2x64x16xf16>, %at: tensor<1xi64>) -> tensor<3x2x64x16xf16> {
  %0 = kernel.launch(%x) grid [n = 4] schedule <warps = 1, stages = 1> : (tensor<3x32xf16>) -> tensor<3x32xf16> {
  ^bb0(%p: tensor<3x32xf16>):
    %t = block.load %p [[], [n]] : tensor<3x32xf16> -> !block.tile<3x8xf16>
    block.store %t [[], [n]] : !block.tile<3x8xf16>
  }
  %1 = kernel.reshape %0 : (tensor<3x32xf16>) -> tensor<3x2x1x16xf16>
  %2 = kernel.index_copy %cache, %at, %1 dim 2 : (tensor<3x2x64x16xf16>, tensor<1xi64>, tensor<3x2x1x16xf16>) -> tensor<3x2x64x16xf16>
  kernel.return %2 : tensor<3x2x64x16xf16>
}
