// Roles wait for the kernel before each by itself: the one that copies after it has asked for boxes of
// inputs, as many as there are slots for.
// RUN: mirage-opt %s --mirage-overlap-launches | FileCheck %s

!box = !thread.tensormap<8x64xf16, swizzle = 128>
!ring = !thread.shared<3x8x64xf16, swizzle = 128>
!tile = !thread.shared<8x64xf16, swizzle = 128>
!barriers = !thread.mbarrier<3>

module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @first(%x: memref<8x512xf16>, %y: memref<8x512xf16>) kernel { gpu.return }

    // CHECK-LABEL: gpu.func @next
    // CHECK: thread.mbarrier_init
    // CHECK-NOT: thread.dependent_wait
    // CHECK: thread.warps first 4
    // The tiles of inputs for all slots, of which there are no more than steps.
    // CHECK: %[[SLOTS:.+]] = arith.minui %c8
    // CHECK: scf.for %[[I:.+]] = %c0 to %[[SLOTS]] step %c1
    // CHECK: %[[SLOT:.+]] = arith.remui %[[I]]
    // CHECK: thread.mbarrier_wait
    // CHECK: thread.mbarrier_expect {{.*}}[%[[SLOT]]] bytes 2048
    // CHECK-NOT: thread.tma_load %arg3
    // CHECK: thread.tma_load %arg4
    // CHECK: thread.dependent_wait
    // The other ones, which the same barriers are for.
    // CHECK: scf.for %[[I:.+]] = %c0 to %[[SLOTS]] step %c1
    // CHECK: %[[SLOT:.+]] = arith.remui %[[I]]
    // CHECK-NOT: thread.mbarrier
    // CHECK: thread.tma_load %arg3[{{.*}}] {{.*}} signal %{{.*}}[%[[SLOT]]]
    // CHECK-NOT: thread.tma_load
    // CHECK: }
    // CHECK: scf.for %{{.+}} = %[[SLOTS]] to %c8 step %c1
    // CHECK: thread.mbarrier_wait
    // CHECK: thread.mbarrier_expect
    // CHECK: thread.tma_load %arg3
    // CHECK: thread.tma_load %arg4
    // CHECK: thread.warps first 0
    // CHECK-NEXT: thread.dependent_wait
    // CHECK-NEXT: scf.for
    gpu.func @next(%a: memref<8x512xf16>, %b: memref<8x512xf16>, %c: memref<8x512xf16>, %ma: !box, %mb: !box)
        kernel attributes {known_block_size = array<i32: 160, 1, 1>} {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c3 = arith.constant 3 : index
      %c8 = arith.constant 8 : index
      %c64 = arith.constant 64 : index
      %s = thread.shared_alloc 0 : !ring
      %t = thread.shared_alloc 3072 : !ring
      %full = thread.mbarrier_alloc 6144 : !barriers
      %empty = thread.mbarrier_alloc 6168 : !barriers
      thread.mbarrier_init %full arrivals 1 : !barriers
      thread.mbarrier_init %empty arrivals 4 : !barriers
      thread.barrier
      thread.warps first 4 count 1 barrier 2 {
        scf.for %i = %c0 to %c8 step %c1 {
          %slot = arith.remui %i, %c3 : index
          %round = arith.divui %i, %c3 : index
          %next = arith.addi %round, %c1 : index
          %column = arith.muli %i, %c64 : index
          thread.mbarrier_wait %empty[%slot] parity %next : !barriers
          thread.mbarrier_expect %full[%slot] bytes 2048 : !barriers
          %s0 = thread.slot %s[%slot] : !ring
          thread.tma_load %ma[%c0, %column] to %s0 signal %full[%slot] : !box to !tile, !barriers
          %t0 = thread.slot %t[%slot] : !ring
          thread.tma_load %mb[%c0, %column] to %t0 signal %full[%slot] : !box to !tile, !barriers
        }
      }
      thread.warps first 0 count 4 barrier 1 {
        scf.for %i = %c0 to %c8 step %c1 {
          %slot = arith.remui %i, %c3 : index
          %round = arith.divui %i, %c3 : index
          thread.mbarrier_wait %full[%slot] parity %round : !barriers
          thread.barrier
          thread.mbarrier_arrive %empty[%slot] : !barriers
        }
      }
      gpu.return
    }
  }
  kernel.graph @pair(%x: tensor<8x512xf16>, %w: tensor<8x512xf16>) -> tensor<8x512xf16> attributes {form = #kernel.form<thread>} {
    %a = kernel.invoke @kernels::@first(%x) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<8x512xf16>) -> tensor<8x512xf16>
    %b = kernel.invoke @kernels::@next(%a, %w) grid [1, 1, 1] block [160, 1, 1] shared 6192
         maps [#kernel.tensor_map<parameter = 0, box = [8, 64], swizzle = 128>, #kernel.tensor_map<parameter = 1, box = [8, 64], swizzle = 128>]
         : (tensor<8x512xf16>, tensor<8x512xf16>) -> tensor<8x512xf16>
    kernel.return %b : tensor<8x512xf16>
  }
}
