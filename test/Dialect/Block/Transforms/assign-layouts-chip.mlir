// RUN: not mirage-opt %s --mirage-assign-layouts=chip=sm_42 2>&1 | FileCheck %s
// CHECK: expected a known chip (sm_80, sm_86, sm_89, sm_90a) or card (a100, {{.*}}gh200), got 'sm_42'
module {}
