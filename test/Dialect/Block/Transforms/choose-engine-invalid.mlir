// RUN: not mirage-opt %s --mirage-choose-engine=chip=sm_1 2>&1 | FileCheck %s

// CHECK: error: expected a known chip
// CHECK-SAME: sm_1
module {}
