// RUN: not mirage-opt %s --mirage-print-ptx=file=%t.absent/kernels.ptx 2>&1 | FileCheck %s

// CHECK: error: cannot write PTX: {{.*}}kernels.ptx
module {
}
