// Values that a loop carries twice are left to LLVM: comparing all pairs of them, again after each change of
// the loop, took most of the time of compiling loops that carry many sums.

// RUN: mirage-opt %s --canonicalize | FileCheck %s --check-prefix=ONCE
// RUN: mirage-opt %s --mirage-thread-to-ptx=chip=h200 -mlir-disable-threading \
// RUN:   --mlir-print-ir-before=loop-invariant-code-motion 2>&1 | FileCheck %s

// ONCE: iter_args(%{{[a-z0-9]+}} = %{{[a-z0-9]+}}) -> (f32)

// CHECK: IR Dump Before LoopInvariantCodeMotion
// CHECK: iter_args(%{{[a-z0-9]+}} = %[[X:[a-z0-9]+]], %{{[a-z0-9]+}} = %[[X]]) -> (f32, f32)

// The PTX has one of them.
// CHECK: gpu.binary
// CHECK: add.rn.f32 \09[[SUM:%r[0-9]+]], [[SUM]], [[SUM]];
gpu.module @kernels {
  gpu.func @twice(%n: index, %out: !llvm.ptr) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %x = arith.constant 1.0 : f32
    %s:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x, %b = %x) -> (f32, f32) {
      %c = arith.addf %a, %b : f32
      scf.yield %c, %c : f32, f32
    }
    %t = arith.mulf %s#0, %s#1 : f32
    llvm.store %t, %out : f32, !llvm.ptr
    gpu.return
  }
}
