// Kernels of few blocks state how many blocks share a multiprocessor's registers.
// RUN: mirage-opt %s --mirage-grant-registers | FileCheck %s
// RUN: not mirage-opt %s --mirage-grant-registers=chip=sm_1 2>&1 | FileCheck %s --check-prefix=CHIP

// CHIP: expected a known chip
module attributes {gpu.container_module} {
  gpu.module @kernels {
    // One wave of three blocks on the smallest card of the chip: 65536 / (3 * 128) registers.
    // CHECK: gpu.func @few{{.*}}nvvm.minctasm = 3 : i32
    gpu.func @few(%a: memref<8xf32>, %b: memref<8xf32>) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
      gpu.return
    }
    // Five blocks would leave 102.
    // CHECK: gpu.func @many
    // CHECK-NOT: minctasm
    gpu.func @many(%a: memref<8xf32>, %b: memref<8xf32>) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
      gpu.return
    }
    // The call with the most blocks counts.
    // CHECK: gpu.func @twice{{.*}}nvvm.minctasm = 2 : i32
    gpu.func @twice(%a: memref<8xf32>, %b: memref<8xf32>) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
      gpu.return
    }
  }
  // CHECK: kernel.graph @g
  kernel.graph @g(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = kernel.invoke @kernels::@few(%x) grid [256, 1, 1] block [128, 1, 1] shared 0 : (tensor<8xf32>) -> tensor<8xf32>
    %1 = kernel.invoke @kernels::@many(%0) grid [571, 1, 1] block [128, 1, 1] shared 0 : (tensor<8xf32>) -> tensor<8xf32>
    %2 = kernel.invoke @kernels::@twice(%1) grid [115, 1, 1] block [256, 1, 1] shared 0 : (tensor<8xf32>) -> tensor<8xf32>
    %3 = kernel.invoke @kernels::@twice(%2) grid [1, 1, 1] block [256, 1, 1] shared 0 : (tensor<8xf32>) -> tensor<8xf32>
    kernel.return %3 : tensor<8xf32>
  }
}
