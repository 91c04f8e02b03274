// What fragments and pointers become.
// RUN: mirage-opt %s --pass-pipeline='builtin.module(gpu.module(mirage-convert-thread-to-nvvm,canonicalize))' | FileCheck %s
// RUN: %execute %s --expect 'a1 = 10 * a0'

#layout = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
!full = !thread.fragment<16x8xf32, #layout>
!half = !thread.fragment<16x8xf16, #layout>

// CHECK: llvm.mlir.global external @mirage_shared() {addr_space = 3 : i32, alignment = 1024 : i64}
gpu.module @kernels {
  // CHECK: gpu.func @k(%{{.*}}: !llvm.ptr<1> {llvm.align = 16 : i64, llvm.noalias}, %{{.*}}: !llvm.ptr<1> {llvm.align = 4 : i64, llvm.noalias})
  // CHECK-SAME: thread.shared_bytes = 3072 : i64
  gpu.func @k(%a: memref<16x8xf32>, %b: memref<16x8xf16> {thread.align = 4}) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c9 = arith.constant 9 : index
    %s = thread.shared_alloc 1024 : !thread.shared<16x64xf16, swizzle = 128>
    // CHECK: llvm.load %{{.*}} {alignment = 8 : i64} : !llvm.ptr<1> -> vector<2xf32>
    %x = thread.load_global %a[%c0, %c0] dims [0, 1] in_bounds [true, true] : memref<16x8xf32> -> !full
    // Four registers: four scalars around the loop.
    // CHECK: scf.for {{.*}} iter_args({{.*}}) -> (f32, f32, f32, f32)
    %y = scf.for %i = %c0 to %c9 step %c1 iter_args(%v = %x) -> (!full) {
      // CHECK: arith.addf
      %w = thread.binary add %v, %x : !full
      scf.yield %w : !full
    }
    // CHECK-COUNT-2: llvm.call_intrinsic "llvm.nvvm.ff2f16x2.rn"
    %h = thread.cast %y : !full -> !half
    // CHECK: llvm.store %{{.*}} {alignment = 4 : i64} : vector<2xf16>, !llvm.ptr<3>
    thread.store_shared %h, %s : !half, !thread.shared<16x64xf16, swizzle = 128>
    // CHECK: llvm.store %{{.*}} {alignment = 4 : i64} : vector<2xf16>, !llvm.ptr<1>
    thread.store_global %h, %b[%c0, %c0] dims [0, 1] in_bounds [true, true] : !half, memref<16x8xf16>
    gpu.return
  }
}
