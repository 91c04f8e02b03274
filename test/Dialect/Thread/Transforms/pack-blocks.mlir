// Blocks of one or two warps that do not meet run as one.
// RUN: mirage-opt %s --mirage-pack-blocks | FileCheck %s
// RUN: not mirage-opt %s --mirage-pack-blocks=chip=sm_1 2>&1 | FileCheck %s --check-prefix=CHIP

// CHIP: expected a known chip
#warp = #thread.layout<lane = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]]>
!fragment = !thread.fragment<1x32xf32, #warp>
module attributes {gpu.container_module} {
  gpu.module @kernels {
    // Twice the 32 blocks of each multiprocessor of the smallest card: eight of one warp are one.
    // CHECK-LABEL: gpu.func @copy
    // CHECK-SAME: known_block_size = array<i32: 256, 1, 1>, thread.packed = 8 : i64
    // CHECK-DAG: %[[BLOCK:.*]] = gpu.block_id x
    // CHECK-DAG: %[[THREAD:.*]] = gpu.thread_id x
    // CHECK: %[[FIRST:.*]] = arith.muli %[[BLOCK]], %c8
    // CHECK: %[[INSIDE:.*]] = arith.divui %[[THREAD]], %c32
    // CHECK: %[[NUMBER:.*]] = arith.addi %[[FIRST]], %[[INSIDE]]
    // CHECK: thread.load_global %{{.*}}[%[[NUMBER]],
    gpu.func @copy(%a: memref<7296x32xf32>, %b: memref<7296x32xf32>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
      %row = gpu.block_id x
      %c0 = arith.constant 0 : index
      %x = thread.load_global %a[%row, %c0] dims [0, 1] in_bounds [true, true] : memref<7296x32xf32> -> !fragment
      thread.store_global %x, %b[%row, %c0] dims [0, 1] in_bounds [true, true] : !fragment, memref<7296x32xf32>
      gpu.return
    }
    // Seven is the largest number that divides 7301.
    // CHECK-LABEL: gpu.func @odd
    // CHECK-SAME: thread.packed = 7 : i64
    gpu.func @odd(%a: memref<7301x32xf32>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
      %row = gpu.block_id x
      gpu.return
    }
    // One block less than two waves.
    // CHECK-LABEL: gpu.func @few
    // CHECK-NOT: thread.packed
    gpu.func @few(%a: memref<7295x32xf32>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
      %row = gpu.block_id x
      gpu.return
    }
    // Four warps are not small.
    // CHECK-LABEL: gpu.func @large
    // CHECK-NOT: thread.packed
    gpu.func @large(%a: memref<7296x32xf32>) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
      %row = gpu.block_id x
      gpu.return
    }
    // A barrier is the whole block's.
    // CHECK-LABEL: gpu.func @meets
    // CHECK-NOT: thread.packed
    gpu.func @meets(%a: memref<7296x32xf32>) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
      thread.barrier
      gpu.return
    }
    // So is shared memory, and the number of a thread.
    // CHECK-LABEL: gpu.func @shares
    // CHECK-NOT: thread.packed
    gpu.func @shares(%a: memref<7296x32xf32>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
      %0 = thread.shared_alloc 0 : !thread.shared<8x8xf32>
      gpu.return
    }
    // CHECK-LABEL: gpu.func @counts
    // CHECK-NOT: thread.packed
    gpu.func @counts(%a: memref<7296x32xf32>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
      %thread = gpu.thread_id x
      gpu.return
    }
  }
  // CHECK-LABEL: kernel.graph @g
  // CHECK: kernel.invoke @kernels::@copy({{.*}}) grid [912, 1, 1] block [256, 1, 1]
  // CHECK: kernel.invoke @kernels::@odd({{.*}}) grid [1043, 1, 1] block [224, 1, 1]
  // CHECK: kernel.invoke @kernels::@few({{.*}}) grid [7295, 1, 1] block [32, 1, 1]
  kernel.graph @g(%x: tensor<7296x32xf32>) -> tensor<7296x32xf32> {
    %0 = kernel.invoke @kernels::@copy(%x) grid [7296, 1, 1] block [32, 1, 1] shared 0 : (tensor<7296x32xf32>) -> tensor<7296x32xf32>
    %1 = kernel.invoke @kernels::@odd(%x) grid [7301, 1, 1] block [32, 1, 1] shared 0 : (tensor<7296x32xf32>) -> tensor<7296x32xf32>
    %2 = kernel.invoke @kernels::@few(%x) grid [7295, 1, 1] block [32, 1, 1] shared 0 : (tensor<7296x32xf32>) -> tensor<7296x32xf32>
    %3 = kernel.invoke @kernels::@large(%x) grid [7296, 1, 1] block [256, 1, 1] shared 0 : (tensor<7296x32xf32>) -> tensor<7296x32xf32>
    %4 = kernel.invoke @kernels::@meets(%x) grid [7296, 1, 1] block [64, 1, 1] shared 0 : (tensor<7296x32xf32>) -> tensor<7296x32xf32>
    %5 = kernel.invoke @kernels::@shares(%x) grid [7296, 1, 1] block [32, 1, 1] shared 0 : (tensor<7296x32xf32>) -> tensor<7296x32xf32>
    %6 = kernel.invoke @kernels::@counts(%x) grid [7296, 1, 1] block [32, 1, 1] shared 0 : (tensor<7296x32xf32>) -> tensor<7296x32xf32>
    kernel.return %6 : tensor<7296x32xf32>
  }
}
