// RUN: mirage-opt %s --mirage-expand-rings | FileCheck %s
// RUN: mirage-opt %s --mirage-expand-rings --mirage-plan-shared-memory | FileCheck %s --check-prefix=PLAN

!ring = !thread.ring<3, <64x64xf16, swizzle = 128>, <64x128xf16, swizzle = 128>>
#acc = #thread.layout<reg = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32], [0, 64]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]>
!acc = !thread.fragment<64x128xf32, #acc>

gpu.module @kernels {
  // The barriers keep their memory; readers reuse the tiles' memory after the
  // ring.
  // PLAN: gpu.func @ring{{.*}}thread.shared_bytes = 73776
  // PLAN: thread.shared_alloc 0 : <3x64x128xf16
  // PLAN: thread.warps first 0 count 4
  // PLAN: scf.yield
  // PLAN: thread.shared_alloc 0 : <64x128xf32, swizzle = 128>
  // PLAN-NEXT: thread.barrier
  // PLAN-NEXT: thread.store_shared

  // CHECK-LABEL: gpu.func @ring
  // CHECK-SAME: %[[MA:arg[0-9]+]]: !thread.tensormap<64x64xf16, swizzle = 128>, %[[MB:arg[0-9]+]]: !thread.tensormap
  gpu.func @ring(%ma: !thread.tensormap<64x64xf16, swizzle = 128>, %mb: !thread.tensormap<64x64xf16, swizzle = 128>)
      kernel attributes {known_block_size = array<i32: 160, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %c8 = arith.constant 8 : index
    // CHECK: %[[A:.*]] = thread.shared_alloc 0 : <3x64x64xf16, swizzle = 128>
    // CHECK: %[[B:.*]] = thread.shared_alloc {{[1-9][0-9]*}} : <3x64x128xf16, swizzle = 128>
    // CHECK: %[[FULL:.*]] = thread.mbarrier_alloc [[AT:[0-9]+]] : <3>
    // CHECK-NOT: thread.mbarrier_alloc [[AT]]
    // CHECK: %[[EMPTY:.*]] = thread.mbarrier_alloc {{[0-9]+}} : <3>
    // CHECK: thread.mbarrier_init %[[FULL]] arrivals 1
    // CHECK: thread.mbarrier_init %[[EMPTY]] arrivals 4
    // CHECK: thread.barrier
    %ring = thread.ring_create readers 4 : !ring
    thread.warps first 4 count 1 barrier 2 {
      // CHECK: scf.for %[[STEP:[a-z0-9]+]] =
      scf.for %k = %c0 to %c8 step %c1 {
        %at = arith.muli %k, %c64 : index
        // CHECK: %[[SLOT:.*]] = arith.remui %[[STEP]], %c3{{.*}}
        // CHECK: %[[ROUND:.*]] = arith.divui %[[STEP]], %c3{{.*}}
        // CHECK: %[[NEXT:.*]] = arith.addi %[[ROUND]], %c1{{.*}}
        // CHECK: %[[PARITY:.*]] = arith.remui %[[NEXT]], %c2{{.*}}
        // CHECK: thread.mbarrier_wait %[[EMPTY]][%[[SLOT]]] parity %[[PARITY]]
        // CHECK: thread.mbarrier_expect %[[FULL]][%[[SLOT]]] bytes 24576
        // CHECK: %[[TA:.*]] = thread.slot %[[A]][%[[SLOT]]]
        // CHECK: thread.tma_load %[[MA]][%c0{{.*}}, %[[AT2:.*]]] to %[[TA]] signal %[[FULL]][%[[SLOT]]]
        // CHECK: %[[TB:.*]] = thread.slot %[[B]][%[[SLOT]]]
        // CHECK: thread.tma_load %[[MB]][%[[AT2]], %c0{{.*}}] to %[[TB]] signal %[[FULL]][%[[SLOT]]]
        thread.ring_fill %ring step %k from %ma, %mb at %c0, %at, %at, %c0
          : !ring, !thread.tensormap<64x64xf16, swizzle = 128>, !thread.tensormap<64x64xf16, swizzle = 128>
      }
    }
    thread.warps first 0 count 4 barrier 1 {
      %z = thread.constant 0.0 : !acc
      // CHECK: scf.for %[[STEP:[a-z0-9]+]] =
      %d = scf.for %k = %c0 to %c8 step %c1 iter_args(%s = %z) -> (!acc) {
        // CHECK: %[[SLOT:.*]] = arith.remui %[[STEP]], %c3{{.*}}
        // CHECK: %[[ROUND:.*]] = arith.divui %[[STEP]], %c3{{.*}}
        // CHECK: %[[PARITY:.*]] = arith.remui %[[ROUND]], %c2{{.*}}
        // CHECK: thread.mbarrier_wait %[[FULL]][%[[SLOT]]] parity %[[PARITY]]
        // CHECK: %[[TA:.*]] = thread.slot %[[A]][%[[SLOT]]]
        // CHECK: %[[TB:.*]] = thread.slot %[[B]][%[[SLOT]]]
        %a, %b = thread.ring_wait %ring step %k : !ring
        // CHECK: thread.wgmma %[[TA]], %[[TB]]
        %p = thread.wgmma %a, %b, %s : !thread.shared<64x64xf16, swizzle = 128>, !thread.shared<64x128xf16, swizzle = 128>, !acc
        thread.wgmma_commit
        %w = thread.wgmma_wait 0 (%p) : !acc
        // CHECK: %[[SLOT:.*]] = arith.remui %[[STEP]], %c3{{.*}}
        // CHECK: thread.mbarrier_arrive %[[EMPTY]][%[[SLOT]]]
        thread.ring_release %ring step %k : !ring
        scf.yield %w : !acc
      }
      %t = thread.shared_alloc 131072 : !thread.shared<64x128xf32, swizzle = 128>
      thread.store_shared %d, %t : !acc, !thread.shared<64x128xf32, swizzle = 128>
    }
    gpu.return
  }
}

// Two blocks fill a ring of their own each; both tiles are the same for both.
!pairs = !thread.ring<2, <64x64xf16, swizzle = 128>, <64x128xf16, swizzle = 128>>

gpu.module @clusters {
  // Memory that is used before the blocks wait for each other is not memory to which another block may already write.
  // PLAN: gpu.func @cluster{{.*}}thread.shared_bytes = 51232

  // CHECK-LABEL: gpu.func @cluster
  gpu.func @cluster(%ma: !thread.tensormap<32x64xf16, swizzle = 128>, %mb: !thread.tensormap<32x64xf16, swizzle = 128>, %f: !thread.fragment<16x64xf16, #thread.layout<reg = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[0, 0], [0, 0], [0, 0]]>>)
      kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    // CHECK: %[[FULL:.*]] = thread.mbarrier_alloc
    // CHECK: %[[EMPTY:.*]] = thread.mbarrier_alloc
    // CHECK: thread.mbarrier_init %[[FULL]] arrivals 1
    // CHECK: thread.mbarrier_init %[[EMPTY]] arrivals 8
    // CHECK: %[[RANK:.*]] = thread.cluster_rank
    // CHECK-NEXT: thread.cluster_barrier
    %ring = thread.ring_create readers 4 cluster 2 : !pairs
    %t = thread.shared_alloc 131072 : !thread.shared<16x64xf16>
    thread.store_shared %f, %t : !thread.fragment<16x64xf16, #thread.layout<reg = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[0, 0], [0, 0], [0, 0]]>>, !thread.shared<16x64xf16>
    thread.warps first 4 count 1 barrier 2 {
      scf.for %k = %c0 to %c8 step %c1 {
        // CHECK: thread.mbarrier_expect %[[FULL]][%{{.*}}] bytes 24576
        // CHECK: thread.tma_load %{{.*}} to %{{.*}} part %[[RANK]] signal %[[FULL]][%{{.*}}] multicast 3 :
        // CHECK: thread.tma_load %{{.*}} to %{{.*}} part %[[RANK]] signal %[[FULL]][%{{.*}}] multicast 3 :
        thread.ring_fill %ring step %k from %ma, %mb at %c0, %k, %k, %c0 shared [0, 1]
          : !pairs, !thread.tensormap<32x64xf16, swizzle = 128>, !thread.tensormap<32x64xf16, swizzle = 128>
      }
    }
    thread.warps first 0 count 4 barrier 1 {
      scf.for %k = %c0 to %c8 step %c1 {
        %a, %b = thread.ring_wait %ring step %k : !pairs
        // CHECK: thread.mbarrier_arrive %[[EMPTY]][%{{.*}}] cluster 2
        thread.ring_release %ring step %k : !pairs
      }
    }
    // CHECK: thread.cluster_barrier
    // CHECK-NEXT: gpu.return
    gpu.return
  }
}

// Rows that warps copy themselves, in addition to a box. 4 warps and their 128 threads arrive, and the one that fills.
!rows = !thread.ring<2, <64x64xf16, swizzle = 128>, <64x128xf16, swizzle = 128>>

gpu.module @written {
  // Readers may reuse the tiles' memory after the ring, as for other copies that they wait for.
  // PLAN: gpu.func @written{{.*}}thread.shared_bytes = 49184

  // CHECK-LABEL: gpu.func @written
  gpu.func @written(%x: memref<99x512xf16>, %at: memref<64xi64>, %mb: !thread.tensormap<64x64xf16, swizzle = 128>)
      kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    // CHECK: %[[FULL:.*]] = thread.mbarrier_alloc
    // CHECK: %[[EMPTY:.*]] = thread.mbarrier_alloc
    // CHECK: thread.mbarrier_init %[[FULL]] arrivals 133
    // CHECK: thread.mbarrier_init %[[EMPTY]] arrivals 4
    %ring = thread.ring_create readers 4 writers 4 copies fills 1 : !rows
    thread.warps first 4 count 4 barrier 2 {
      scf.for %k = %c0 to %c8 step %c1 {
        // CHECK: thread.mbarrier_wait %[[EMPTY]]
        // CHECK-NOT: thread.mbarrier_wait
        // CHECK: thread.mbarrier_expect %[[FULL]][%{{.*}}] bytes 16384
        // CHECK: thread.tma_load
        // CHECK: thread.gather_async
        // CHECK: thread.copy_arrive %[[FULL]]
        // CHECK: thread.mbarrier_arrive %[[FULL]]
        %a, %b = thread.ring_acquire %ring step %k : !rows
        thread.ring_fill %ring step %k into [1] from %mb at %k, %c0 : !rows, !thread.tensormap<64x64xf16, swizzle = 128>
        thread.gather_async %x, %at[%c0, %c0] index_rank 1 dims [0, 1] in_bounds [true, true] to %a
          : memref<99x512xf16>, memref<64xi64> to !thread.shared<64x64xf16, swizzle = 128>
        thread.ring_publish %ring step %k : !rows
      }
    }
    thread.warps first 0 count 4 barrier 1 {
      scf.for %k = %c0 to %c8 step %c1 {
        // The threads' writes come before the fence for products.
        // CHECK: thread.mbarrier_wait %[[FULL]]
        // CHECK-NEXT: thread.fence async_proxy
        %a, %b = thread.ring_wait %ring step %k : !rows
        thread.ring_release %ring step %k : !rows
      }
    }
    gpu.return
  }
}

// Only boxes: apart from the filling threads, only warps arrive, regardless of what they may have stored.
gpu.module @stored {
  // CHECK-LABEL: gpu.func @stored
  gpu.func @stored(%ma: !thread.tensormap<64x64xf16, swizzle = 128>, %mb: !thread.tensormap<64x64xf16, swizzle = 128>)
      kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    %c0 = arith.constant 0 : index
    // CHECK: thread.mbarrier_init %{{.*}} arrivals 6
    %ring = thread.ring_create readers 4 writers 4 fills 2 : !rows
    thread.warps first 4 count 4 barrier 2 {
      %a, %b = thread.ring_acquire %ring step %c0 : !rows
      thread.ring_fill %ring step %c0 into [0] from %ma at %c0, %c0 : !rows, !thread.tensormap<64x64xf16, swizzle = 128>
      thread.ring_fill %ring step %c0 into [1] from %mb at %c0, %c0 : !rows, !thread.tensormap<64x64xf16, swizzle = 128>
      // CHECK-NOT: thread.copy_arrive
      // CHECK: thread.mbarrier_arrive
      thread.ring_publish %ring step %c0 : !rows
    }
    thread.warps first 0 count 4 barrier 1 {
      // CHECK: thread.fence async_proxy
      %a, %b = thread.ring_wait %ring step %c0 : !rows
      thread.ring_release %ring step %c0 : !rows
    }
    gpu.return
  }
}
