// The registers of a thread are those of a known chip.
// RUN: not mirage-opt %s --pass-pipeline='builtin.module(gpu.module(mirage-recompute-values{chip=sm_1}))' 2>&1 | FileCheck %s

// CHECK: error: {{.*}}sm_1
gpu.module @kernels {
}
