// LLVM widens aligned loads of three elements to four: the alignment that it gets divides the size of the
// tensor, so that nothing beyond its end is read.
// RUN: mirage-opt %s --pass-pipeline='builtin.module(gpu.module(mirage-convert-thread-to-nvvm))' | FileCheck %s
// RUN: %execute %s --expect 'a1 = 2 * a0'

#layout = #thread.layout<reg = [[0, 1], [0, 2]], lane = [[0, 0], [0, 0], [0, 0], [0, 0], [0, 0]]>
!tile = !thread.fragment<1x4xf16, #layout>

// CHECK: gpu.func @k(%{{.*}}: !llvm.ptr<1> {llvm.align = 2 : i64, llvm.noalias}, %{{.*}}: !llvm.ptr<1> {llvm.align = 2 : i64, llvm.noalias}, %{{.*}}: !llvm.ptr<1> {llvm.align = 16 : i64, llvm.noalias}, %{{.*}}: !llvm.ptr<1> {llvm.align = 4 : i64, llvm.noalias})
gpu.module @kernels {
  gpu.func @k(%a: memref<1x3xf16>, %b: memref<1x3xf16>, %c: memref<3x8xf16>, %d: memref<3x8xf16> {thread.align = 4}) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %x = thread.load_global %a[%c0, %c0] dims [0, 1] in_bounds [true, true] extents [1, 3] : memref<1x3xf16> -> !tile
    %y = thread.binary add %x, %x : !tile
    thread.store_global %y, %b[%c0, %c0] dims [0, 1] in_bounds [true, true] extents [1, 3] : !tile, memref<1x3xf16>
    gpu.return
  }
}
