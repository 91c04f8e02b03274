// Constants in the address of an element may be beyond 2^28 bytes, more than an
// index of `llvm.getelementptr` keeps.
// RUN: mirage-opt %s --mirage-thread-to-ptx --mirage-print-ptx -o /dev/null | FileCheck %s

#layout = #thread.layout<reg = [[1, 0]], lane = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]]>
!tile = !thread.fragment<2x32xf32, #layout>

// CHECK: ld.global{{.*}} [%rd[[#BASE:]]];
// CHECK: ld.global{{.*}} [%rd[[#BASE]]+469762048];
// CHECK: st.global{{.*}} [%rd[[#OUT:]]],
// CHECK: st.global{{.*}} [%rd[[#OUT]]+268435456],
gpu.module @kernels {
  gpu.func @k(%a: memref<2x117440512xf32>, %b: memref<2x67108864xf32>) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %x = thread.load_global %a[%c0, %c0] dims [0, 1] in_bounds [true, true] : memref<2x117440512xf32> -> !tile
    thread.store_global %x, %b[%c0, %c0] dims [0, 1] in_bounds [true, true] : !tile, memref<2x67108864xf32>
    gpu.return
  }
}
