// The usual flags of MLIR's driver.
// RUN: mirage-opt %s --canonicalize | FileCheck %s
// RUN: mirage-opt %s --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC
// RUN: mirage-opt %s --emit-bytecode -o %t.mlirbc && mirage-opt %t.mlirbc | FileCheck %s
// RUN: mirage-opt --show-dialects | FileCheck %s --check-prefix=DIALECTS
// RUN: mirage-opt --help | FileCheck %s --check-prefix=HELP
// RUN: mirage-opt %s --pass-pipeline='builtin.module(cse)' --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=PIPELINE
// RUN: not mirage-opt %s --no-such-pass 2>&1 | FileCheck %s --check-prefix=NOFLAG

// CHECK-LABEL: kernel.graph @square
// CHECK: kernel.unary square
// GENERIC: "kernel.graph"
// DIALECTS: block,{{.*}}kernel,{{.*}}nvvm,{{.*}}thread
// HELP-DAG: --mirage-search
// HELP-DAG: --mirage-verify
// HELP-DAG: --convert-gpu-to-nvvm
// HELP-DAG: --gpu-module-to-binary
// HELP-DAG: --split-input-file
// PIPELINE: builtin.module(
// PIPELINE-NEXT: cse
// NOFLAG: Unknown command line argument '--no-such-pass'
kernel.graph @square(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %y = kernel.unary square %x : (tensor<4x8xf16>) -> tensor<4x8xf16>
  kernel.return %y : tensor<4x8xf16>
}
