// Nothing beyond the existing rows of a dynamic tensor is read or written, regardless of 'in_bounds', which
// is about the largest size; accesses are as wide as a unit of the size allows.
// RUN: mirage-opt %s --pass-pipeline='builtin.module(gpu.module(mirage-convert-thread-to-nvvm))' | FileCheck %s

#layout = #thread.layout<reg = [[0, 1], [0, 2]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]]>
!tile = !thread.fragment<32x4xf32, #layout>

// CHECK: gpu.func @k(%[[A:.*]]: !llvm.ptr<1> {llvm.align = 16 : i64, llvm.noalias}, %[[B:.*]]: !llvm.ptr<1> {llvm.align = 16 : i64, llvm.noalias}, %[[N:.*]]: i32)
// CHECK: %[[SIZE:.*]] = arith.extui %[[N]] : i32 to i64
// CHECK: %[[C16:.*]] = arith.constant 16 : i64
// CHECK: arith.muli %[[SIZE]], %[[C16]]
// CHECK: llvm.load {{.*}} : !llvm.ptr<1> -> vector<4xf32>
// CHECK: scf.if
// CHECK: llvm.store {{.*}} : vector<4xf32>, !llvm.ptr<1>
gpu.module @kernels {
  gpu.func @k(%a: memref<32x4xf32> {thread.unit = 4}, %b: memref<32x4xf32> {thread.unit = 4}, %n: i32 {thread.size}) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %x = thread.load_global %a[%c0, %c0] dims [0, 1] in_bounds [true, true] : memref<32x4xf32> -> !tile
    thread.store_global %x, %b[%c0, %c0] dims [0, 1] in_bounds [true, true] : !tile, memref<32x4xf32>
    gpu.return
  }
}
