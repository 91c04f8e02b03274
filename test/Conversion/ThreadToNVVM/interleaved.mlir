// Interleaved tensors are addressed from one of them, with the alignment that all threads have, so that LLVM
// joins stores to neighbours.
// RUN: mirage-opt %s --pass-pipeline='builtin.module(gpu.module(mirage-convert-thread-to-nvvm))' | FileCheck %s
// RUN: mirage-opt %s --mirage-thread-to-ptx | FileCheck %s --check-prefix=PTX

#layout = #thread.layout<reg = [[0, 1]], lane = [[0, 2], [0, 4], [0, 8], [0, 16], [0, 32]]>
!tile = !thread.fragment<1x64xf16, #layout>

// CHECK: gpu.func @k(%[[A:.*]]: !llvm.ptr<1> {{{.*}}}, %{{.*}}: !llvm.ptr<1> {{{.*}}}, %{{.*}}: !llvm.ptr<1> {{{.*}}})
// CHECK-NOT: thread.interleaved
// CHECK: llvm.getelementptr %[[A]][2]
// CHECK: llvm.store {{.*}} {alignment = 8 : i64} : f16
// CHECK: llvm.store {{.*}} {alignment = 4 : i64} : f16
// CHECK: llvm.store {{.*}} {alignment = 2 : i64} : f16
// PTX: st.global.v4.b16
// PTX-NOT: st.global
gpu.module @kernels {
  gpu.func @k(%a: memref<1x64xf16, strided<[128, 2]>> {thread.align = 16, thread.interleaved = array<i64: 0, 0>},
              %b: memref<1x64xf16, strided<[128, 2]>> {thread.align = 2, thread.interleaved = array<i64: 0, 1>},
              %x: memref<1x64xf16>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %t = thread.load_global %x[%c0, %c0] dims [0, 1] in_bounds [true, true] : memref<1x64xf16> -> !tile
    %u = thread.binary add %t, %t : !tile
    thread.store_global %t, %a[%c0, %c0] dims [0, 1] in_bounds [true, true] : !tile, memref<1x64xf16, strided<[128, 2]>>
    thread.store_global %u, %b[%c0, %c0] dims [0, 1] in_bounds [true, true] : !tile, memref<1x64xf16, strided<[128, 2]>>
    gpu.return
  }
}
