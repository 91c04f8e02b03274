// Refusals of the search are errors with a reason.
// RUN: not mirage-opt %s --mirage-search=time-limit=0 2>&1 | FileCheck %s --check-prefix=TIME
// RUN: not mirage-opt %s --mirage-search=time-limit=nan 2>&1 | FileCheck %s --check-prefix=NAN
// RUN: not mirage-opt %s --mirage-search=max-candidates=0 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not mirage-opt %s --mirage-search=seed=-1 2>&1 | FileCheck %s --check-prefix=SEED
// RUN: not mirage-opt %s --mirage-search=max-plans=-1 2>&1 | FileCheck %s --check-prefix=BOUND
// RUN: not mirage-opt %s --mirage-search=chip=sm_10 2>&1 | FileCheck %s --check-prefix=CHIP
// RUN: not mirage-opt %s --mirage-search=budget=3 2>&1 | FileCheck %s --check-prefix=OPTION
// RUN: not mirage-opt %s --mirage-search --mirage-search 2>&1 | FileCheck %s --check-prefix=FORM --implicit-check-not=Traceback

// TIME: errors.mlir:[[#@LINE+9]]:1: error: expected a positive budget of seconds, got 0.0
// NAN: error: expected a positive budget of seconds, got nan
// NONE: error: expected the search limit 'candidates' to be at least 1, got 0
// SEED: error: expected the search limit 'seed' to be at least 0, got -1
// BOUND: error: expected the search limit 'plans' to be at least 1, got -1
// CHIP: error: expected a known chip (sm_80, sm_86, sm_89, sm_90a) or card (a100, {{.*}}gh200), got 'sm_10'
// OPTION: no such option budget
// FORM: errors.mlir:[[#@LINE+3]]:3: error: expected form none or 'reference', got 'candidates'

module {
  kernel.graph @softmax(%x: tensor<4x64xf16>) -> tensor<4x64xf16> {
    %y = kernel.softmax %x dim 1 : (tensor<4x64xf16>) -> tensor<4x64xf16>
    kernel.return %y : tensor<4x64xf16>
  }
}
