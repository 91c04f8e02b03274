// An unknown chip is an error wherever a chip is named.
// RUN: not mirage-opt %s --mirage-lower-block=chip=sm_1 2>&1 | FileCheck %s
// RUN: not mirage-opt %s --mirage-thread-to-ptx=chip=sm_1 2>&1 | FileCheck %s
// RUN: not mirage-opt %s --mirage-choose-engine=chip=sm_1 2>&1 | FileCheck %s
// RUN: not mirage-opt %s --mirage-assign-layouts=chip=sm_1 2>&1 | FileCheck %s
// RUN: not mirage-opt %s --mirage-pipeline-loops=chip=sm_1 2>&1 | FileCheck %s
// RUN: not mirage-opt %s --mirage-plan-shared-memory=chip=sm_1 2>&1 | FileCheck %s
// RUN: not mirage-opt %s --mirage-check-chip=chip=sm_1 2>&1 | FileCheck %s
// RUN: not mirage-opt %s --mirage-search=chip=sm_1 2>&1 | FileCheck %s
// RUN: not mirage-opt %s --mirage-select=chip=sm_1 2>&1 | FileCheck %s

// CHECK: error: expected a known chip (sm_80, sm_86, sm_89, sm_90a) or card (a100, {{.*}}gh200), got 'sm_1'
module {
}
