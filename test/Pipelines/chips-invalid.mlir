// RUN: not mirage-opt %s --mirage-lower-block=chip=sm_1 2>&1 | FileCheck %s
// RUN: not mirage-opt %s --mirage-plan-shared-memory=chip=sm_1 2>&1 | FileCheck %s

// CHECK: error: expected a known chip (sm_80, {{.*}}sm_90a), got 'sm_1'
module {
}
