// RUN: not mirage-opt %s --mirage-verify 2>&1 | FileCheck %s --check-prefix=VERIFY
// RUN: not mirage-opt %s --mirage-select 2>&1 | FileCheck %s --check-prefix=SELECT
// RUN: not mirage-opt %s --mirage-stabilize 2>&1 | FileCheck %s --check-prefix=STABILIZE
// RUN: not mirage-opt %s --mirage-search=chip=sm_1 2>&1 | FileCheck %s --check-prefix=CHIP

// A pass that is run too early says which form is missing, at the graph.
// VERIFY: forms-invalid.mlir:[[#@LINE+4]]:1: error: expected form 'candidates', got 'reference'
// SELECT: forms-invalid.mlir:[[#@LINE+3]]:1: error: expected form 'verified', got 'reference'
// STABILIZE: forms-invalid.mlir:[[#@LINE+2]]:1: error: expected form none or 'candidates', got 'reference'
// CHIP: error: expected a known chip (sm_80, {{.*}}, got 'sm_1'
kernel.graph @f(%x: tensor<8xf32>) -> tensor<8xf32> attributes {form = #kernel.form<reference>} {
  %0 = kernel.unary exp %x : (tensor<8xf32>) -> tensor<8xf32>
  kernel.return %0 : tensor<8xf32>
}
