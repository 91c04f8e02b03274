// Exponentials that are rounded to 16 bits take one instruction less if their scores come from a product;
// those of loaded scores are exactly 1 if the difference is 0.
// RUN: mirage-opt %s --pass-pipeline='builtin.module(gpu.module(mirage-convert-thread-to-nvvm,canonicalize))' | FileCheck %s

#lhs = #thread.layout<reg = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
#rhs = #thread.layout<reg = [[1, 0], [8, 0]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]]>
#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
!lhs = !thread.fragment<16x16xbf16, #lhs>
!rhs = !thread.fragment<16x8xbf16, #rhs>
!acc = !thread.fragment<16x8xf32, #acc>
!half = !thread.fragment<16x8xbf16, #acc>

gpu.module @kernels {
  // CHECK-LABEL: gpu.func @loaded
  gpu.func @loaded(%s: memref<16x8xf32>, %m: memref<16x8xf32>, %o: memref<16x8xbf16>) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>} {
    // CHECK: %[[LOG2E:.*]] = arith.constant 1.44269502 : f32
    // CHECK-NOT: fma
    // CHECK: %[[D:.*]] = arith.subf
    // CHECK: %[[P:.*]] = arith.mulf %[[D]], %[[LOG2E]]
    // CHECK: "llvm.nvvm.ex2.approx{{.*}}"(%[[P]])
    // CHECK-NOT: fma
    // CHECK: gpu.return
    %c0 = arith.constant 0 : index
    %x = thread.load_global %s[%c0, %c0] dims [0, 1] in_bounds [true, true] : memref<16x8xf32> -> !acc
    %most = thread.load_global %m[%c0, %c0] dims [0, 1] in_bounds [true, true] : memref<16x8xf32> -> !acc
    %d = thread.binary sub %x, %most : !acc
    %e = thread.unary exp %d : !acc
    %h = thread.cast %e : !acc -> !half
    thread.store_global %h, %o[%c0, %c0] dims [0, 1] in_bounds [true, true] : !half, memref<16x8xbf16>
    gpu.return
  }

  // The scores of one step are used in the next one.
  // CHECK-LABEL: gpu.func @computed
  gpu.func @computed(%a: memref<16x16xbf16>, %b: memref<16x8xbf16>, %m: memref<16x8xf32>, %o: memref<16x8xbf16>) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>} {
    // CHECK: scf.for
    // CHECK: %[[LESS:.*]] = arith.negf
    // CHECK: %[[P:.*]] = llvm.call_intrinsic "llvm.fma.f32"(%{{.*}}, %{{.*}}, %[[LESS]])
    // CHECK: "llvm.nvvm.ex2.approx{{.*}}"(%[[P]])
    // CHECK: gpu.return
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %zero = thread.constant 0.0 : !acc
    %fa = thread.load_global %a[%c0, %c0] dims [0, 1] in_bounds [true, true] : memref<16x16xbf16> -> !lhs
    %fb = thread.load_global %b[%c0, %c0] dims [0, 1] in_bounds [true, true] : memref<16x8xbf16> -> !rhs
    %most = thread.load_global %m[%c0, %c0] dims [0, 1] in_bounds [true, true] : memref<16x8xf32> -> !acc
    %none = thread.constant 0.0 : !half
    %r:2 = scf.for %k = %c0 to %c4 step %c1 iter_args(%scores = %zero, %last = %none) -> (!acc, !half) {
      %d = thread.binary sub %scores, %most : !acc
      %e = thread.unary exp %d : !acc
      %h = thread.cast %e : !acc -> !half
      %next = thread.mma %fa, %fb, %zero : !lhs, !rhs, !acc
      scf.yield %next, %h : !acc, !half
    }
    thread.store_global %r#1, %o[%c0, %c0] dims [0, 1] in_bounds [true, true] : !half, memref<16x8xbf16>
    gpu.return
  }
  // A branch masks them.
  // CHECK-LABEL: gpu.func @masked
  gpu.func @masked(%a: memref<16x16xbf16>, %b: memref<16x8xbf16>, %m: memref<16x8xf32>, %o: memref<16x8xbf16>, %cut: i1) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>} {
    // CHECK: %[[LESS:.*]] = arith.negf
    // CHECK: %[[P:.*]] = llvm.call_intrinsic "llvm.fma.f32"(%{{.*}}, %{{.*}}, %[[LESS]])
    // CHECK: "llvm.nvvm.ex2.approx{{.*}}"(%[[P]])
    // CHECK: gpu.return
    %c0 = arith.constant 0 : index
    %zero = thread.constant 0.0 : !acc
    %fa = thread.load_global %a[%c0, %c0] dims [0, 1] in_bounds [true, true] : memref<16x16xbf16> -> !lhs
    %fb = thread.load_global %b[%c0, %c0] dims [0, 1] in_bounds [true, true] : memref<16x8xbf16> -> !rhs
    %most = thread.load_global %m[%c0, %c0] dims [0, 1] in_bounds [true, true] : memref<16x8xf32> -> !acc
    %scores = thread.mma %fa, %fb, %zero : !lhs, !rhs, !acc
    %seen = scf.if %cut -> (!acc) {
      %less = thread.binary add %scores, %most : !acc
      scf.yield %less : !acc
    } else {
      scf.yield %scores : !acc
    }
    %d = thread.binary sub %seen, %most : !acc
    %e = thread.unary exp %d : !acc
    %h = thread.cast %e : !acc -> !half
    thread.store_global %h, %o[%c0, %c0] dims [0, 1] in_bounds [true, true] : !half, memref<16x8xbf16>
    gpu.return
  }
}
