// Copies, ldmatrix and mma of a small product, as PTX for two targets.
// RUN: mirage-opt %s --mirage-thread-to-ptx=chip=sm_80 --mirage-print-ptx -o /dev/null | FileCheck %s --check-prefixes=CHECK,SM80
// RUN: mirage-opt %s --mirage-thread-to-ptx=chip=sm_90a --mirage-print-ptx -o /dev/null | FileCheck %s --check-prefixes=CHECK,SM90
// RUN: %execute %s --expect 'a2 = a0 @ a1'

#lhs = #thread.layout<reg = [[0, 1], [8, 0], [0, 8], [0, 16]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[0, 0]]>
#rhs = #thread.layout<reg = [[1, 0], [8, 0], [16, 0]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]], warp = [[0, 8]]>
#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[0, 8]]>
!lhs = !thread.fragment<16x32xbf16, #lhs>
!rhs = !thread.fragment<32x16xbf16, #rhs>
!acc = !thread.fragment<16x16xf32, #acc>
!half = !thread.fragment<16x16xbf16, #acc>
!ta = !thread.shared<16x32xbf16, swizzle = 64>
!tb = !thread.shared<32x16xbf16, swizzle = 32>

// SM80: .target sm_80
// SM90: .target sm_90a
// CHECK: .extern .shared .align 1024 .b8 mirage_shared[]
// CHECK: .visible .entry product(
// CHECK-NEXT: .param .u64 .ptr .global .align 16 product_param_0
// CHECK: .maxntid 64, 1, 1
// CHECK-NOT: .local
gpu.module @kernels {
  gpu.func @product(%a: memref<16x256xbf16>, %b: memref<256x16xbf16>, %o: memref<16x16xbf16>) kernel
      attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c32 = arith.constant 32 : index
    %c256 = arith.constant 256 : index
    %sa = thread.shared_alloc 0 : !ta
    %sb = thread.shared_alloc 1024 : !tb
    %zero = thread.constant 0.0 : !acc
    // A loop of 8 steps stays a loop.
    // CHECK-COUNT-2: cp.async.cg.shared.global [%{{.*}}], [%{{.*}}], 16;
    // CHECK: cp.async.commit_group;
    // CHECK: cp.async.wait_group 0;
    // CHECK: bar.sync 0;
    // CHECK: ldmatrix.sync.aligned.m8n8.x4.shared.b16
    // CHECK: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
    // CHECK: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
    // CHECK: bar.sync 0;
    // CHECK-NOT: mma.sync
    %r = scf.for %k = %c0 to %c256 step %c32 iter_args(%acc = %zero) -> (!acc) {
      thread.copy_async %a[%c0, %k] dims [0, 1] in_bounds [true, true] to %sa : memref<16x256xbf16> to !ta
      thread.copy_async %b[%k, %c0] dims [0, 1] in_bounds [true, true] to %sb : memref<256x16xbf16> to !tb
      thread.copy_commit
      thread.copy_wait 0
      thread.barrier
      %fa = thread.load_shared %sa : !ta -> !lhs
      %fb = thread.load_shared %sb : !tb -> !rhs
      %next = thread.mma %fa, %fb, %acc : !lhs, !rhs, !acc
      thread.barrier
      scf.yield %next : !acc
    }
    // CHECK: cvt.rn.bf16x2.f32
    // CHECK: st.global.b32
    %h = thread.cast %r : !acc -> !half
    thread.store_global %h, %o[%c0, %c0] dims [0, 1] in_bounds [true, true] : !half, memref<16x16xbf16>
    gpu.return
  }
}
