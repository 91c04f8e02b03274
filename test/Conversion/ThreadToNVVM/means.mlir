// A sum times the reciprocal of a count is rounded once; an exact reciprocal remains a product.
// RUN: mirage-opt %s --pass-pipeline='builtin.module(gpu.module(mirage-convert-thread-to-nvvm,canonicalize))' | FileCheck %s
// RUN: %execute %s --expect 'a1 = 0.333333343 * a0'

#layout = #thread.layout<lane = [[0, 1], [0, 2], [0, 4], [1, 0], [2, 0]]>
!line = !thread.fragment<4x8xf32, #layout>

gpu.module @kernels {
  // CHECK-LABEL: gpu.func @k
  gpu.func @k(%a: memref<4x8xf32>, %b: memref<4x8xf32>) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>} {
    // CHECK-DAG: %[[THREE:.*]] = arith.constant 3.000000e+00 : f32
    // CHECK-DAG: %[[THIRD:.*]] = arith.constant 0.333333343 : f32
    // CHECK-DAG: %[[QUARTER:.*]] = arith.constant 2.500000e-01 : f32
    // CHECK-DAG: %[[OTHER:.*]] = arith.constant 0.299999982 : f32
    %c0 = arith.constant 0 : index
    %x = thread.load_global %a[%c0, %c0] dims [0, 1] in_bounds [true, true] : memref<4x8xf32> -> !line
    %third = thread.constant 0.333333343 : !line
    // CHECK: %[[Q:.*]] = arith.mulf %[[X:.*]], %[[THIRD]]
    // CHECK: %[[LESS:.*]] = arith.negf %[[Q]]
    // CHECK: %[[REST:.*]] = llvm.call_intrinsic "llvm.fma.f32"(%[[LESS]], %[[THREE]], %[[X]])
    // CHECK: %[[OFF:.*]] = arith.cmpf one, %[[REST]]
    // CHECK: %[[BETTER:.*]] = llvm.call_intrinsic "llvm.fma.f32"(%[[REST]], %[[THIRD]], %[[Q]])
    // CHECK: arith.select %[[OFF]], %[[BETTER]], %[[Q]]
    %y = thread.binary mul %x, %third : !line
    %four = thread.constant 4.0 : !line
    %quarter = thread.constant 0.25 : !line
    // CHECK-NOT: fma
    // CHECK: arith.mulf %{{.*}}, %[[QUARTER]]
    // CHECK-NOT: fma
    %w = thread.binary mul %y, %quarter : !line
    %z = thread.binary mul %w, %four : !line
    %one = thread.constant 0.299999982 : !line
    // CHECK: arith.mulf %{{.*}}, %[[OTHER]]
    // CHECK-NOT: fma
    // CHECK: gpu.return
    %u = thread.binary mul %z, %one : !line
    %d = thread.binary sub %u, %u : !line
    %r = thread.binary add %z, %d : !line
    thread.store_global %r, %b[%c0, %c0] dims [0, 1] in_bounds [true, true] : !line, memref<4x8xf32>
    gpu.return
  }
}
