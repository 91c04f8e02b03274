// Features that the chip does not have are errors at the op that needs them.
// RUN: mirage-opt %s --mirage-check-chip=chip=sm_90a
// RUN: mirage-opt %s --mirage-check-chip=chip=h100
// RUN: not mirage-opt %s --mirage-check-chip=chip=sm_80 2>&1 | FileCheck %s
// RUN: not mirage-opt %s --mirage-check-chip=chip=rtx4090 2>&1 | FileCheck %s --check-prefix=ADA
// RUN: not mirage-opt %s --mirage-thread-to-ptx=chip=sm_86 2>&1 | FileCheck %s --check-prefix=PTX

// CHECK: check-chip.mlir:[[#@LINE+8]]:14: error: 'thread.mbarrier_alloc' op expected a chip with mbarriers that count bytes, got sm_80
// CHECK: error: 'thread.mbarrier_init' op expected a chip with mbarriers that count bytes, got sm_80
// CHECK: error: 'thread.dependent_wait' op expected a chip with dependent launches, got sm_80
// ADA: error: 'thread.mbarrier_init' op expected a chip with mbarriers that count bytes, got sm_89
// PTX: error: 'thread.mbarrier_alloc' op expected a chip with mbarriers that count bytes, got sm_86
module {
  gpu.module @kernels {
    gpu.func @k() kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
      %bar = thread.mbarrier_alloc 8192 : !thread.mbarrier<1>
      thread.mbarrier_init %bar arrivals 1 : !thread.mbarrier<1>
      thread.dependent_wait
      gpu.return
    }
  }
}
