// Instructions of sm_90: roles, mbarriers, tensor copies, warpgroup products.
// RUN: mirage-opt %s --mirage-thread-to-ptx --mirage-print-ptx -o /dev/null | FileCheck %s
// RUN: %execute %s --chip sm_90a --expect 'a0 = a1 @ a1'

#acc = #thread.layout<reg = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]>
!acc = !thread.fragment<64x64xf32, #acc>
!tile = !thread.shared<64x64xf16, swizzle = 128>
!map = !thread.tensormap<64x64xf16, swizzle = 128>

// CHECK: .visible .entry k(
// CHECK: .param .align 64 .b8 k_param_1[128]
// CHECK: .minnctapersm 1
gpu.module @kernels {
  gpu.func @k(%o: memref<64x64xf32>, %map: !map) kernel attributes {known_block_size = array<i32: 160, 1, 1>} {
    %c0 = arith.constant 0 : index
    %s = thread.shared_alloc 0 : !tile
    %full = thread.mbarrier_alloc 8192 : !thread.mbarrier<1>
    // The first thread of each warp broadcasts the warp's number once: roles are branches on it.
    // CHECK: mov.u32 %[[THREAD:r[0-9]+]], %tid.x
    // CHECK: shr.u32 %[[OWN:r[0-9]+]], %[[THREAD]], 5
    // CHECK: shfl.sync.idx.b32 %[[WARP:r[0-9]+]], %[[OWN]], 0, 31, -1
    // CHECK: prefetch.tensormap
    thread.prefetch_map %map : !map
    // CHECK: mbarrier.init.shared::cta.b64
    // CHECK: fence.mbarrier_init.release.cluster
    thread.mbarrier_init %full arrivals 1 : !thread.mbarrier<1>
    // CHECK: bar.sync 0
    thread.barrier
    // CHECK: setp.ne.b32 {{.*}}, %[[WARP]], 4
    // CHECK-NOT: shfl
    thread.warps first 4 count 1 barrier 1 {
      // CHECK: setmaxnreg.dec.sync.aligned.u32 40;
      thread.set_max_registers decrease 40
      // CHECK: mbarrier.arrive.expect_tx.shared::cta.b64
      thread.mbarrier_expect %full[%c0] bytes 8192 : !thread.mbarrier<1>
      // CHECK: cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
      thread.tma_load %map[%c0, %c0] to %s signal %full[%c0] : !map to !tile, !thread.mbarrier<1>
    }
    thread.warps first 0 count 4 barrier 2 {
      // CHECK: mbarrier.try_wait.parity.shared::cta.b64
      thread.mbarrier_wait %full[%c0] parity %c0 : !thread.mbarrier<1>
      %z = thread.constant 0.0 : !acc
      // The fence and four instructions, in one piece of assembly.
      // CHECK: wgmma.fence.sync.aligned;
      // CHECK-NEXT: wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16
      // CHECK-NEXT: wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16
      // CHECK-NEXT: wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16
      // CHECK-NEXT: wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16
      %d = thread.wgmma %s, %s, %z : !tile, !tile, !acc
      // CHECK: wgmma.commit_group.sync.aligned
      thread.wgmma_commit
      // CHECK: wgmma.wait_group.sync.aligned 0
      %r = thread.wgmma_wait 0 (%d) : !acc
      // CHECK: bar.sync 2, 128
      thread.barrier
      thread.store_global %r, %o[%c0, %c0] dims [0, 1] in_bounds [true, true] : !acc, memref<64x64xf32>
    }
    gpu.return
  }
}
