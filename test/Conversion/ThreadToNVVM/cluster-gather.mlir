// RUN: mirage-opt %s --mirage-thread-to-ptx --mirage-print-ptx -o /dev/null | FileCheck %s

#row = #thread.layout<reg = [], lane = [[0, 0], [0, 0], [0, 0], [0, 0], [0, 0]], warp = []>
!f = !thread.fragment<1x1xf32, #row>

// One thread writes the number to the place of its block in all blocks; all read what has arrived in their own.
// CHECK: barrier.cluster.arrive.aligned
// CHECK: barrier.cluster.wait.aligned
// CHECK: mov.u32 %{{.*}}, %cluster_ctarank
// CHECK: mapa.shared::cluster
// CHECK-COUNT-4: st.shared::cluster.b32
// CHECK: barrier.cluster.arrive.aligned
// CHECK-NEXT: barrier.cluster.wait.aligned
// CHECK: ld.shared.v4.b32 {{.*}}, [mirage_shared+16]
gpu.module @kernels {
  gpu.func @k(%o: memref<1x1xf32>, %x: memref<1x1xf32>) kernel attributes {known_block_size = array<i32: 32, 1, 1>, thread.shared_bytes = 32 : i64} {
    %c0 = arith.constant 0 : index
    thread.cluster_arrive
    %f = thread.load_global %x[%c0, %c0] dims [0, 1] in_bounds [true, true] : memref<1x1xf32> -> !f
    thread.cluster_wait
    %a:4 = thread.cluster_gather %f blocks 4 {scratch = 16 : i64} : !f -> !f, !f, !f, !f
    %s = thread.binary add %a#0, %a#1 : !f
    %t = thread.binary add %a#2, %a#3 : !f
    %u = thread.binary add %s, %t : !f
    thread.store_global %u, %o[%c0, %c0] dims [0, 1] in_bounds [true, true] : !f, memref<1x1xf32>
    gpu.return
  }
}
