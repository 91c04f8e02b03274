// RUN: mirage-opt %s | mirage-opt | FileCheck %s
// RUN: mirage-opt %s --mlir-print-op-generic | mirage-opt | FileCheck %s

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
#wide = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], repeat = [1, 3]>
#rows = #thread.layout<reg = [[8, 0]], lane = [[0, 0], [0, 0], [1, 0], [2, 0], [4, 0]]>
#turned = #thread.layout<reg = [[1, 0], [0, 8]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]]>
#blocked = #thread.layout<reg = [[0, 1], [0, 2]], lane = [[0, 4], [1, 0], [2, 0], [4, 0], [8, 0]]>
#lhs = #thread.layout<reg = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
#rhs = #thread.layout<reg = [[1, 0], [8, 0]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]]>
#split = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[0, 0]]>
#once = #thread.layout<reg = [[0, 1]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[8, 0]]>
#wgmma = #thread.layout<reg = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]>

// CHECK-DAG: #[[ACC:.*]] = #thread.layout<reg = {{\[}}[0, 1], [8, 0]], lane = {{\[}}[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
// CHECK-DAG: #[[WIDE:.*]] = #thread.layout<reg = {{\[}}[0, 1], [8, 0]], lane = {{\[}}[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], repeat = [1, 3]>
// CHECK-DAG: #[[SPLIT:.*]] = #thread.layout<reg = {{\[}}[0, 1], [8, 0]], lane = {{\[}}[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = {{\[}}[0, 0]]>

// CHECK-LABEL: func.func @registers
func.func @registers(%x: !thread.fragment<16x8xf32, #acc>, %s: f32, %i: index) {
  // CHECK: thread.constant 1.500000e+00 : <16x24xf32, #[[WIDE]]>
  %c = thread.constant 1.5 : !thread.fragment<16x24xf32, #wide>
  // CHECK: thread.splat %{{.*}} : f32 -> <16x8xf32, #[[ACC]]>
  %d = thread.splat %s : f32 -> !thread.fragment<16x8xf32, #acc>
  // CHECK: thread.iota dim 1 at %{{.*}} : <16x8xf32, #[[ACC]]>
  %e = thread.iota dim 1 at %i : !thread.fragment<16x8xf32, #acc>
  // CHECK: thread.unary gelu_tanh %{{.*}} : <16x8xf32, #[[ACC]]>
  %f = thread.unary gelu_tanh %x : !thread.fragment<16x8xf32, #acc>
  // CHECK: thread.binary pow %{{.*}}, %{{.*}} : <16x8xf32, #[[ACC]]>
  %g = thread.binary pow %x, %f : !thread.fragment<16x8xf32, #acc>
  // CHECK: %[[P:.*]] = thread.iota dim 0 at %{{.*}} : <16x8xi64, #[[ACC]]>
  %p = thread.iota dim 0 at %i : !thread.fragment<16x8xi64, #acc>
  // CHECK: thread.integers %[[P]], %{{.*}} ["load 0 1", "load 0 1", "cast 1 : i8", "mul 0 2 : i64"] : (!thread.fragment<16x8xi64, #[[ACC]]>, !thread.fragment<16x8xf32, #[[ACC]]>) -> !thread.fragment<16x8xi64, #[[ACC]]>
  %q = thread.integers %p, %x ["load 0 1", "load 0 1", "cast 1 : i8", "mul 0 2 : i64"]
    : (!thread.fragment<16x8xi64, #acc>, !thread.fragment<16x8xf32, #acc>) -> !thread.fragment<16x8xi64, #acc>
  // CHECK: thread.scale %{{.*}} by 1.250000e-01 : <16x8xf32, #[[ACC]]>
  %h = thread.scale %x by 0.125 : !thread.fragment<16x8xf32, #acc>
  // CHECK: thread.exceeds %{{.*}}, 8.192000e+03 : <16x8xf32, #[[ACC]]>
  %again = thread.exceeds %x, 8192.0 : !thread.fragment<16x8xf32, #acc>
  // CHECK: thread.rescale %{{.*}} by %{{.*}} : <16x8xf32, #[[ACC]]>, <16x8xf32, #[[ACC]]>
  %hr = thread.rescale %h by %x : !thread.fragment<16x8xf32, #acc>, !thread.fragment<16x8xf32, #acc>
  // CHECK: thread.cast %{{.*}} : <16x8xf32, #[[ACC]]> -> <16x8xbf16, #[[ACC]]>
  %j = thread.cast %x : !thread.fragment<16x8xf32, #acc> -> !thread.fragment<16x8xbf16, #acc>
  // CHECK: thread.mask %{{.*}} dim 0 at %{{.*}} extent 100 fill 0xFFF0000000000000
  %k = thread.mask %x dim 0 at %i extent 100 fill 0xFFF0000000000000 : !thread.fragment<16x8xf32, #acc>
  // CHECK: thread.mask %{{.*}} dim 1 at %{{.*}} below extent 0 fill 0.000000e+00
  %kb = thread.mask %x dim 1 at %i below extent 0 fill 0.0 : !thread.fragment<16x8xf32, #acc>
  return
}

// CHECK-LABEL: func.func @shapes
func.func @shapes(%x: !thread.fragment<16x8xf32, #acc>, %w: !thread.fragment<16x24xf32, #wide>,
                  %p: !thread.fragment<16x8xf32, #split, partial>) {
  // CHECK: thread.reduce sum %{{.*}} dim 1 {scratch = 1024 : i64} : {{.*}} -> <16x1xf32,
  %r = thread.reduce sum %x dim 1 {scratch = 1024 : i64} : !thread.fragment<16x8xf32, #acc> -> !thread.fragment<16x1xf32, #rows>
  // CHECK: thread.cumulate max exclusive %{{.*}} dim 1 {scratch = 1024 : i64} : <16x8xf32,
  %so_far = thread.cumulate max exclusive %x dim 1 {scratch = 1024 : i64} : !thread.fragment<16x8xf32, #acc>
  // CHECK: thread.cumulate prod %{{.*}} dim 1 {scratch = 1024 : i64} : <16x8xf32,
  %factors = thread.cumulate prod %x dim 1 {scratch = 1024 : i64} : !thread.fragment<16x8xf32, #acc>
  // CHECK: thread.argsort descending %{{.*}} dim 1 size 6 : <16x8xf32, {{.*}} -> <16x8xi64,
  %places = thread.argsort descending %x dim 1 size 6 : !thread.fragment<16x8xf32, #acc> -> !thread.fragment<16x8xi64, #acc>
  // CHECK: thread.broadcast %{{.*}} dim 1
  %b = thread.broadcast %r dim 1 : !thread.fragment<16x1xf32, #rows> -> !thread.fragment<16x8xf32, #acc>
  // CHECK: thread.transpose %{{.*}} : {{.*}} -> <8x16xf32,
  %t = thread.transpose %x : !thread.fragment<16x8xf32, #acc> -> !thread.fragment<8x16xf32, #turned>
  // CHECK: thread.slice %{{.*}} [0, 16]
  %s = thread.slice %w [0, 16] : !thread.fragment<16x24xf32, #wide> -> !thread.fragment<16x8xf32, #acc>
  // CHECK: thread.convert_layout %{{.*}} {scratch = 0 : i64}
  %c = thread.convert_layout %x {scratch = 0 : i64} : !thread.fragment<16x8xf32, #acc> -> !thread.fragment<16x8xf32, #blocked>
  // CHECK: thread.reduce_warps %{{.*}} : <16x8xf32, #[[SPLIT]], partial> -> <16x8xf32,
  %u = thread.reduce_warps %p : !thread.fragment<16x8xf32, #split, partial> -> !thread.fragment<16x8xf32, #once>
  return
}

// CHECK-LABEL: func.func @memory
func.func @memory(%a: memref<8x64x100xf16>, %o: memref<64x100xf32, strided<[1, 64]>>, %i: index, %on: i1,
                  %x: !thread.fragment<16x8xf32, #acc>) {
  // CHECK: thread.load_global %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] dims [1, 2] in_bounds [true, false] :
  %l = thread.load_global %a[%i, %i, %i] dims [1, 2] in_bounds [true, false] : memref<8x64x100xf16> -> !thread.fragment<16x8xf16, #acc>
  // CHECK: thread.load_global {{.*}} when %{{.*}} :
  %m = thread.load_global %a[%i, %i, %i] dims [1, -1] in_bounds [true, false] when %on : memref<8x64x100xf16> -> !thread.fragment<16x1xf16, #rows>
  // CHECK: thread.store_global %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}] dims [0, 1] in_bounds [true, true] :
  thread.store_global %x, %o[%i, %i] dims [0, 1] in_bounds [true, true] : !thread.fragment<16x8xf32, #acc>, memref<64x100xf32, strided<[1, 64]>>
  // CHECK: %[[RING:.*]] = thread.shared_alloc 1024 : <3x16x64xf16, swizzle = 128>
  %ring = thread.shared_alloc 1024 : !thread.shared<3x16x64xf16, swizzle = 128>
  // CHECK: thread.slot %[[RING]][%{{.*}}] : <3x16x64xf16, swizzle = 128>
  %s = thread.slot %ring[%i] : !thread.shared<3x16x64xf16, swizzle = 128>
  // CHECK: thread.copy_async %{{.*}} dims [1, 2] in_bounds [true, true] to %{{.*}} : memref<8x64x100xf16> to <16x64xf16, swizzle = 128>
  thread.copy_async %a[%i, %i, %i] dims [1, 2] in_bounds [true, true] to %s : memref<8x64x100xf16> to !thread.shared<16x64xf16, swizzle = 128>
  // CHECK: thread.copy_commit
  thread.copy_commit
  // CHECK: thread.copy_wait 1
  thread.copy_wait 1
  // CHECK: thread.barrier
  thread.barrier
  // CHECK: thread.load_shared %{{.*}} at [0, 16] :
  %f = thread.load_shared %s at [0, 16] : !thread.shared<16x64xf16, swizzle = 128> -> !thread.fragment<16x8xf16, #acc>
  // CHECK: thread.load_shared %{{.*}} transposed :
  %g = thread.load_shared %s transposed : !thread.shared<16x64xf16, swizzle = 128> -> !thread.fragment<8x16xf16, #turned>
  // CHECK: thread.store_shared %{{.*}}, %{{.*}} at [0, 8] : <16x8xf16, #[[ACC]]>, <16x64xf16, swizzle = 128>
  thread.store_shared %f, %s at [0, 8] : !thread.fragment<16x8xf16, #acc>, !thread.shared<16x64xf16, swizzle = 128>
  // CHECK: thread.shared_alloc 0 : <16x24xf32, pad = 4>
  %p = thread.shared_alloc 0 : !thread.shared<16x24xf32, pad = 4>
  %q = thread.shared_alloc 0 : !thread.shared<16x64xi8>
  // CHECK: thread.load_shared %{{.*}} at [0, 16] : <16x64xi8> -> <16x8xf16, #[[ACC]]>
  %w = thread.load_shared %q at [0, 16] : !thread.shared<16x64xi8> -> !thread.fragment<16x8xf16, #acc>
  return
}

// CHECK-LABEL: func.func @products
func.func @products(%a: !thread.fragment<16x16xf16, #lhs>, %b: !thread.fragment<16x8xf16, #rhs>, %c: !thread.fragment<16x8xf32, #acc>,
                    %d: !thread.fragment<64x64xf32, #wgmma>, %s: !thread.shared<64x64xf16, swizzle = 128>) {
  // CHECK: thread.mma %{{.*}}, %{{.*}}, %{{.*}} :
  %r = thread.mma %a, %b, %c : !thread.fragment<16x16xf16, #lhs>, !thread.fragment<16x8xf16, #rhs>, !thread.fragment<16x8xf32, #acc>
  // CHECK: thread.wgmma_fence
  thread.wgmma_fence
  // CHECK: thread.wgmma %{{.*}}, %{{.*}} transposed, %{{.*}} :
  %w = thread.wgmma %s, %s transposed, %d : !thread.shared<64x64xf16, swizzle = 128>, !thread.shared<64x64xf16, swizzle = 128>, !thread.fragment<64x64xf32, #wgmma>
  // CHECK: thread.wgmma_commit
  thread.wgmma_commit
  // CHECK: thread.wgmma_wait 0(%{{.*}}) :
  %v = thread.wgmma_wait 0 (%w) : !thread.fragment<64x64xf32, #wgmma>
  // CHECK: thread.wgmma_wait 1{{$}}
  thread.wgmma_wait 1
  return
}

// CHECK-LABEL: func.func @roles
func.func @roles(%map: !thread.tensormap<64x64xf16, swizzle = 128>, %g: memref<64x128xf16>, %n: memref<16xi32>,
                 %i: index, %f: !thread.fragment<16x8xf32, #acc>) {
  // CHECK: %[[FULL:.*]] = thread.mbarrier_alloc 65536 : <4>
  %full = thread.mbarrier_alloc 65536 : !thread.mbarrier<4>
  %t = thread.shared_alloc 0 : !thread.shared<64x64xf16, swizzle = 128>
  %u = thread.shared_alloc 8192 : !thread.shared<4x128xf16>
  %two = thread.shared_alloc 16384 : !thread.shared<128x64xf16, swizzle = 128>
  %v = thread.shared_alloc 0 : !thread.shared<16x8xf32>
  // CHECK: thread.mbarrier_init %[[FULL]] arrivals 1 : <4>
  thread.mbarrier_init %full arrivals 1 : !thread.mbarrier<4>
  // CHECK: thread.warps first 0 count 1 barrier 1 {
  thread.warps first 0 count 1 barrier 1 {
    // CHECK: thread.set_max_registers decrease 40
    thread.set_max_registers decrease 40
    // CHECK: thread.mbarrier_expect %[[FULL]][%{{.*}}] bytes 16384 : <4>
    thread.mbarrier_expect %full[%i] bytes 16384 : !thread.mbarrier<4>
    // CHECK: thread.prefetch_map %{{.*}} : <64x64xf16, swizzle = 128>
    thread.prefetch_map %map : !thread.tensormap<64x64xf16, swizzle = 128>
    // CHECK: thread.tma_load %{{.*}}[%{{.*}}, %{{.*}}] to %{{.*}} signal %[[FULL]][%{{.*}}] :
    thread.tma_load %map[%i, %i] to %t signal %full[%i] : !thread.tensormap<64x64xf16, swizzle = 128> to !thread.shared<64x64xf16, swizzle = 128>, !thread.mbarrier<4>
    // CHECK: thread.tma_load {{.*}} multicast 3 :
    thread.tma_load %map[%i, %i] to %t signal %full[%i] multicast 3 : !thread.tensormap<64x64xf16, swizzle = 128> to !thread.shared<64x64xf16, swizzle = 128>, !thread.mbarrier<4>
    // CHECK: thread.tma_load {{.*}} to %{{.*}} part %{{.*}} signal {{.*}} multicast 3 :
    thread.tma_load %map[%i, %i] to %two part %i signal %full[%i] multicast 3 : !thread.tensormap<64x64xf16, swizzle = 128> to !thread.shared<128x64xf16, swizzle = 128>, !thread.mbarrier<4>
    // CHECK: thread.bulk_copy {{.*}} dims [0, 1] to
    thread.bulk_copy %g[%i, %i] dims [0, 1] to %u signal %full[%i] : memref<64x128xf16> to !thread.shared<4x128xf16>, !thread.mbarrier<4>
    // CHECK: thread.barrier
    thread.barrier
  }
  thread.warps first 1 count 4 barrier 2 {
    // CHECK: thread.set_max_registers increase 232
    thread.set_max_registers increase 232
    // CHECK: thread.mbarrier_wait %[[FULL]][%{{.*}}] parity %{{.*}} : <4>
    thread.mbarrier_wait %full[%i] parity %i : !thread.mbarrier<4>
    // CHECK: thread.mbarrier_arrive %[[FULL]][%{{.*}}] : <4>
    thread.mbarrier_arrive %full[%i] : !thread.mbarrier<4>
    // CHECK: thread.copy_arrive %[[FULL]][%{{.*}}] : <4>
    thread.copy_arrive %full[%i] : !thread.mbarrier<4>
    // CHECK: thread.mbarrier_arrive %[[FULL]][%{{.*}}] cluster 2 : <4>
    thread.mbarrier_arrive %full[%i] cluster 2 : !thread.mbarrier<4>
    // CHECK: thread.fence async_proxy
    thread.fence async_proxy
    // CHECK: thread.tma_store
    thread.tma_store %t to %map[%i, %i] : !thread.shared<64x64xf16, swizzle = 128> to !thread.tensormap<64x64xf16, swizzle = 128>
    // CHECK: thread.tma_store %{{.*}} to %{{.*}}[%{{.*}}, %{{.*}}] group :
    thread.tma_store %t to %map[%i, %i] group : !thread.shared<64x64xf16, swizzle = 128> to !thread.tensormap<64x64xf16, swizzle = 128>
    // CHECK: thread.barrier group
    thread.barrier group
    // CHECK: thread.group_rows %{{.*}} : <64x64xf16, swizzle = 128>
    %mine = thread.group_rows %t : !thread.shared<64x64xf16, swizzle = 128>
    // CHECK: thread.bulk_commit
    thread.bulk_commit
    // CHECK: thread.bulk_wait 0 read
    thread.bulk_wait 0 read
  }
  // CHECK: thread.cluster_rank
  %rank = thread.cluster_rank
  // CHECK: thread.cluster_barrier
  thread.cluster_barrier
  // CHECK: thread.cluster_arrive
  thread.cluster_arrive
  // CHECK: thread.cluster_wait
  thread.cluster_wait
  // CHECK: %{{.*}}:2 = thread.cluster_gather %{{.*}} blocks 2 {scratch = 64 : i64} :
  %all:2 = thread.cluster_gather %f blocks 2 {scratch = 64 : i64} : !thread.fragment<16x8xf32, #acc> -> !thread.fragment<16x8xf32, #acc>, !thread.fragment<16x8xf32, #acc>
  // CHECK: thread.store_remote %{{.*}}, %{{.*}} rank %{{.*}} :
  thread.store_remote %f, %v rank %i : !thread.fragment<16x8xf32, #acc>, !thread.shared<16x8xf32>
  // CHECK: thread.load_remote %{{.*}} rank %{{.*}} :
  %r = thread.load_remote %v rank %i : !thread.shared<16x8xf32> -> !thread.fragment<16x8xf32, #acc>
  // CHECK: thread.dependent_wait
  thread.dependent_wait
  // CHECK: thread.dependent_launch
  thread.dependent_launch
  // CHECK: thread.signal %{{.*}}[%{{.*}}] : memref<16xi32>
  thread.signal %n[%i] : memref<16xi32>
  // CHECK: thread.wait_counter %{{.*}}[%{{.*}}] reaches 4 : memref<16xi32>
  thread.wait_counter %n[%i] reaches 4 : memref<16xi32>
  return
}

// CHECK-LABEL: func.func @atomics
func.func @atomics(%o: memref<64x128xf32>, %i: index, %f: !thread.fragment<16x8xf32, #acc>) {
  // CHECK: thread.atomic_add %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}] dims [0, 1] in_bounds [true, true] :
  thread.atomic_add %f, %o[%i, %i] dims [0, 1] in_bounds [true, true] : !thread.fragment<16x8xf32, #acc>, memref<64x128xf32>
  return
}

// CHECK-LABEL: func.func @rings
func.func @rings(%ma: !thread.tensormap<64x64xf16, swizzle = 128>, %mb: !thread.tensormap<1x64x32xf16, swizzle = 64>, %i: index) {
  // CHECK: thread.ring_create readers 8 : <4, <64x64xf16, swizzle = 128>, <64x64xf16, swizzle = 64>>
  %r = thread.ring_create readers 8 : !thread.ring<4, <64x64xf16, swizzle = 128>, <64x64xf16, swizzle = 64>>
  // CHECK: %[[PAIRS:.*]] = thread.ring_create readers 8 cluster 2 : <4, <128x64xf16, swizzle = 128>>
  %pairs = thread.ring_create readers 8 cluster 2 : !thread.ring<4, <128x64xf16, swizzle = 128>>
  // CHECK: thread.ring_fill %[[PAIRS]] step %{{.*}} from %{{.*}} at %{{.*}}, %{{.*}} shared [0] :
  thread.ring_fill %pairs step %i from %ma at %i, %i shared [0]
    : !thread.ring<4, <128x64xf16, swizzle = 128>>, !thread.tensormap<64x64xf16, swizzle = 128>
  // CHECK: thread.ring_fill %{{.*}} step %{{.*}} from %{{.*}}, %{{.*}} at %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} :
  thread.ring_fill %r step %i from %ma, %mb at %i, %i, %i, %i, %i
    : !thread.ring<4, <64x64xf16, swizzle = 128>, <64x64xf16, swizzle = 64>>,
      !thread.tensormap<64x64xf16, swizzle = 128>, !thread.tensormap<1x64x32xf16, swizzle = 64>
  // CHECK: %{{.*}}:2 = thread.ring_wait %{{.*}} step %{{.*}} :
  %a, %b = thread.ring_wait %r step %i : !thread.ring<4, <64x64xf16, swizzle = 128>, <64x64xf16, swizzle = 64>>
  // CHECK: thread.ring_release %{{.*}} step %{{.*}} :
  thread.ring_release %r step %i : !thread.ring<4, <64x64xf16, swizzle = 128>, <64x64xf16, swizzle = 64>>
  // CHECK: %[[WRITTEN:.*]] = thread.ring_create readers 8 writers 4 copies fills 2 : <4, <64x64xf16, swizzle = 128>, <64x64xf16, swizzle = 64>>
  %w = thread.ring_create readers 8 writers 4 copies fills 2 : !thread.ring<4, <64x64xf16, swizzle = 128>, <64x64xf16, swizzle = 64>>
  // CHECK: %{{.*}}:2 = thread.ring_acquire %[[WRITTEN]] step %{{.*}} :
  %c, %d = thread.ring_acquire %w step %i : !thread.ring<4, <64x64xf16, swizzle = 128>, <64x64xf16, swizzle = 64>>
  // CHECK: thread.ring_fill %[[WRITTEN]] step %{{.*}} into [1] from %{{.*}} at %{{.*}}, %{{.*}}, %{{.*}} : <4, <64x64xf16, swizzle = 128>, <64x64xf16, swizzle = 64>>, !thread.tensormap<1x64x32xf16, swizzle = 64>
  thread.ring_fill %w step %i into [1] from %mb at %i, %i, %i
    : !thread.ring<4, <64x64xf16, swizzle = 128>, <64x64xf16, swizzle = 64>>, !thread.tensormap<1x64x32xf16, swizzle = 64>
  // CHECK: thread.ring_fill %[[WRITTEN]] step %{{.*}} into [] : <4, <64x64xf16, swizzle = 128>, <64x64xf16, swizzle = 64>>
  thread.ring_fill %w step %i into [] : !thread.ring<4, <64x64xf16, swizzle = 128>, <64x64xf16, swizzle = 64>>
  // CHECK: thread.ring_publish %[[WRITTEN]] step %{{.*}} :
  thread.ring_publish %w step %i : !thread.ring<4, <64x64xf16, swizzle = 128>, <64x64xf16, swizzle = 64>>
  return
}

// CHECK-LABEL: func.func @eight_bits
func.func @eight_bits(%a: memref<64x64xf8E4M3FN>, %i: index, %d: !thread.fragment<64x64xf32, #wgmma>,
                      %s: !thread.shared<64x64xf8E4M3FN, swizzle = 64>, %t: !thread.shared<64x64xf8E5M2, swizzle = 64>) {
  // CHECK: thread.load_global {{.*}} : memref<64x64xf8E4M3FN> -> <16x8xf16
  %l = thread.load_global %a[%i, %i] dims [0, 1] in_bounds [true, true] : memref<64x64xf8E4M3FN> -> !thread.fragment<16x8xf16, #acc>
  // CHECK: thread.store_global {{.*}} memref<64x64xf8E4M3FN>
  thread.store_global %l, %a[%i, %i] dims [0, 1] in_bounds [true, true] : !thread.fragment<16x8xf16, #acc>, memref<64x64xf8E4M3FN>
  // CHECK: thread.wgmma %{{.*}}, %{{.*}} transposed, %{{.*}} {from_zero} : !thread.shared<64x64xf8E4M3FN, swizzle = 64>, <64x64xf8E5M2, swizzle = 64>
  %w = thread.wgmma %s, %t transposed, %d {from_zero} : !thread.shared<64x64xf8E4M3FN, swizzle = 64>, !thread.shared<64x64xf8E5M2, swizzle = 64>, !thread.fragment<64x64xf32, #wgmma>
  // CHECK: thread.wgmma %{{.*}}, %{{.*}} transposed, %{{.*}} {promoted} :
  %p = thread.wgmma %s, %s transposed, %d {promoted} : !thread.shared<64x64xf8E4M3FN, swizzle = 64>, !thread.shared<64x64xf8E4M3FN, swizzle = 64>, !thread.fragment<64x64xf32, #wgmma>
  return
}

// -----

// CHECK-LABEL: func @rows_by_index
func.func @rows_by_index(%a: memref<1000x64xf16>, %at: memref<2x16xi64>, %i: index, %on: i1,
                         %s: !thread.shared<16x64xf16, swizzle = 128>) {
  // CHECK: thread.gather_async %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] index_rank 2 dims [1, 2] in_bounds [true, true] to %{{.*}} : memref<1000x64xf16>, memref<2x16xi64> to <16x64xf16, swizzle = 128>
  thread.gather_async %a, %at[%i, %i, %i] index_rank 2 dims [1, 2] in_bounds [true, true] to %s : memref<1000x64xf16>, memref<2x16xi64> to !thread.shared<16x64xf16, swizzle = 128>
  // CHECK: thread.gather_async {{.*}} to %{{.*}} from_end : memref<1000x64xf16>
  thread.gather_async %a, %at[%i, %i, %i] index_rank 2 dims [1, 2] in_bounds [true, true] to %s from_end : memref<1000x64xf16>, memref<2x16xi64> to !thread.shared<16x64xf16, swizzle = 128>
  // CHECK: thread.gather_global {{.*}} in_bounds [true, true] from_end : memref<1000x64xf16>
  %g = thread.gather_global %a, %at[%i, %i, %i] index_rank 2 dims [1, 2] in_bounds [true, true] from_end : memref<1000x64xf16>, memref<2x16xi64> -> !thread.fragment<16x8xf16, #acc>
  // CHECK: thread.gather_async {{.*}} extents [9, 64] to %{{.*}} when %{{.*}} :
  thread.gather_async %a, %at[%i, %i, %i] index_rank 2 dims [1, 2] in_bounds [false, true] extents [9, 64] to %s when %on : memref<1000x64xf16>, memref<2x16xi64> to !thread.shared<16x64xf16, swizzle = 128>
  // CHECK: %[[ROWS:.*]] = thread.read_indices %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] index_rank 2 dims [1, 2] in_bounds [true, true] of !thread.shared<16x64xf16, swizzle = 128> when %{{.*}} : memref<1000x64xf16>, memref<2x16xi64> -> vector<4xi64>
  %rows = thread.read_indices %a, %at[%i, %i, %i] index_rank 2 dims [1, 2] in_bounds [true, true] of !thread.shared<16x64xf16, swizzle = 128> when %on : memref<1000x64xf16>, memref<2x16xi64> -> vector<4xi64>
  // CHECK: thread.gather_async {{.*}} to %{{.*}} rows %[[ROWS]] : memref<1000x64xf16>, memref<2x16xi64> to <16x64xf16, swizzle = 128>, vector<4xi64>
  thread.gather_async %a, %at[%i, %i, %i] index_rank 2 dims [1, 2] in_bounds [true, true] to %s rows %rows : memref<1000x64xf16>, memref<2x16xi64> to !thread.shared<16x64xf16, swizzle = 128>, vector<4xi64>
  return
}
