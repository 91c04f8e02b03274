// RUN: mirage-opt %s --pass-pipeline='builtin.module(gpu.module(mirage-set-tensor-maps))' | FileCheck %s

// A tensor map is 128 bytes of parameter memory, where the accelerator can read
// it, not a copy in local memory.
gpu.module @kernels {
  // CHECK: llvm.func @k(%{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant})
  // CHECK-NOT: thread.tensor_maps
  llvm.func @k(%a: !llvm.ptr<1>, %map: !llvm.ptr) attributes {gpu.kernel, nvvm.kernel, thread.tensor_maps = array<i64: 1>} {
    llvm.return
  }
  // CHECK: llvm.func @plain(%{{.*}}: !llvm.ptr)
  llvm.func @plain(%a: !llvm.ptr) attributes {gpu.kernel, nvvm.kernel} {
    llvm.return
  }
}
