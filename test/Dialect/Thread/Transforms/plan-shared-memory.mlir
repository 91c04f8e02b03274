// RUN: mirage-opt %s --mirage-plan-shared-memory --split-input-file | FileCheck %s

#rows = #thread.layout<reg = [[0, 1]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>

module attributes {gpu.container_module} {
  // CHECK: kernel.invoke @kernels::@reuse({{.*}}) grid [1, 1, 1] block [32, 1, 1] shared 1024
  kernel.graph @graph(%x: tensor<8x8xf16>) -> tensor<8x8xf16> {
    %y = kernel.invoke @kernels::@reuse(%x) grid [1, 1, 1] block [32, 1, 1] shared 0 : (tensor<8x8xf16>) -> tensor<8x8xf16>
    kernel.return %y : tensor<8x8xf16>
  }
  gpu.module @kernels {
    // Two tiles that are not live at the same time share memory; all warps must finish reading the first one
    // before the second is written.
    // CHECK: gpu.func @reuse{{.*}}thread.shared_bytes = 1024
    // CHECK: %[[A:.*]] = thread.shared_alloc 0
    // CHECK: %[[B:.*]] = thread.shared_alloc 0
    // CHECK: thread.load_shared %[[A]]
    // CHECK-NEXT: thread.barrier
    // CHECK-NEXT: thread.copy_async {{.*}} to %[[B]]
    gpu.func @reuse(%x: memref<8x8xf16>, %y: memref<8x8xf16>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
      %c0 = arith.constant 0 : index
      %a = thread.shared_alloc 0 : !thread.shared<32x16xf16>
      %b = thread.shared_alloc 1024 : !thread.shared<8x8xf16>
      %z = thread.constant 0.0 : !thread.fragment<8x8xf16, #rows>
      thread.store_shared %z, %a : !thread.fragment<8x8xf16, #rows>, !thread.shared<32x16xf16>
      thread.barrier
      %f = thread.load_shared %a : !thread.shared<32x16xf16> -> !thread.fragment<8x8xf16, #rows>
      thread.copy_async %x[%c0, %c0] dims [0, 1] in_bounds [true, true] to %b : memref<8x8xf16> to !thread.shared<8x8xf16>
      thread.copy_commit
      thread.copy_wait 0
      thread.barrier
      %g = thread.load_shared %b : !thread.shared<8x8xf16> -> !thread.fragment<8x8xf16, #rows>
      %s = thread.binary add %f, %g : !thread.fragment<8x8xf16, #rows>
      thread.store_global %s, %y[%c0, %c0] dims [0, 1] in_bounds [true, true] : !thread.fragment<8x8xf16, #rows>, memref<8x8xf16>
      gpu.return
    }

    // A tile that a loop reads lives through all of it.
    // CHECK: gpu.func @loop{{.*}}thread.shared_bytes = 1152
    // CHECK: thread.shared_alloc 0 : <32x16xf16>
    // CHECK: thread.shared_alloc 1024 : <8x8xf16>
    // CHECK-NOT: thread.barrier
    // CHECK: scf.for
    gpu.func @loop(%y: memref<8x8xf16>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c4 = arith.constant 4 : index
      %a = thread.shared_alloc 0 : !thread.shared<32x16xf16>
      %b = thread.shared_alloc 0 : !thread.shared<8x8xf16>
      %z = thread.constant 0.0 : !thread.fragment<8x8xf16, #rows>
      scf.for %i = %c0 to %c4 step %c1 {
        thread.store_shared %z, %a : !thread.fragment<8x8xf16, #rows>, !thread.shared<32x16xf16>
        thread.barrier
        %f = thread.load_shared %a : !thread.shared<32x16xf16> -> !thread.fragment<8x8xf16, #rows>
        thread.store_shared %f, %b : !thread.fragment<8x8xf16, #rows>, !thread.shared<8x8xf16>
        thread.barrier
      }
      gpu.return
    }
  }
}
