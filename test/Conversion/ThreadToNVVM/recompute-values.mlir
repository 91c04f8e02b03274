// What is computed from 16-bit pairs, and needed again after a barrier, is computed again from the
// pairs if a thread of 1024 has no registers for it; it stays as it is if there are enough.
// RUN: mirage-opt %s --pass-pipeline='builtin.module(gpu.module(mirage-convert-thread-to-nvvm,canonicalize{top-down=false},cse,mirage-recompute-values{chip=sm_90a}))' | FileCheck %s

#long = #thread.layout<reg = [[0, 1], [0, 2], [0, 4], [0, 8192], [0, 16384], [0, 32768]], lane = [[0, 8], [0, 16], [0, 32], [0, 64], [0, 128]], warp = [[0, 256], [0, 512], [0, 1024], [0, 2048], [0, 4096]]>
#short = #thread.layout<reg = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [0, 16], [0, 32], [0, 64], [0, 128]], warp = [[0, 256], [0, 512], [0, 1024], [0, 2048], [0, 4096]]>
#row = #thread.layout<reg = [], lane = [[0, 0], [0, 0], [0, 0], [0, 0], [0, 0]], warp = [[0, 0], [0, 0], [0, 0], [0, 0], [0, 0]]>

gpu.module @kernels {
  // 64 elements are 32 registers behind the barrier, and converted again there.
  // CHECK-LABEL: gpu.func @long
  // CHECK: arith.extf
  // CHECK: barrier.cta.sync
  // CHECK-COUNT-32: llvm.inline_asm has_side_effects{{.*}} "", "=r,0"
  // CHECK: arith.extf
  // CHECK: llvm.store {{.*}} !llvm.ptr<1>
  gpu.func @long(%a: memref<8x65536xf16>, %b: memref<8x65536xf16>) kernel
      attributes {known_block_size = array<i32: 1024, 1, 1>} {
    %c0 = arith.constant 0 : index
    %x = thread.load_global %a[%c0, %c0] dims [0, 1] in_bounds [true, true] : memref<8x65536xf16> -> <1x65536xf16, #long>
    %y = thread.cast %x : <1x65536xf16, #long> -> <1x65536xf32, #long>
    %m = thread.reduce max %y dim 1 {scratch = 0 : i64} : <1x65536xf32, #long> -> <1x1xf32, #row>
    %n = thread.broadcast %m dim 1 : <1x1xf32, #row> -> <1x65536xf32, #long>
    %d = thread.binary sub %y, %n : <1x65536xf32, #long>
    %r = thread.cast %d : <1x65536xf32, #long> -> <1x65536xf16, #long>
    thread.store_global %r, %b[%c0, %c0] dims [0, 1] in_bounds [true, true] : <1x65536xf16, #long>, memref<8x65536xf16>
    gpu.return
  }

  // Squares are needed only behind the barrier, and computed only there.
  // CHECK-LABEL: gpu.func @late
  // CHECK-NOT: arith.mulf
  // CHECK: barrier.cta.sync
  // CHECK: "", "=r,0"
  // CHECK: arith.mulf
  // CHECK: llvm.store {{.*}} !llvm.ptr<1>
  gpu.func @late(%a: memref<8x65536xf16>, %b: memref<8x65536xf16>) kernel
      attributes {known_block_size = array<i32: 1024, 1, 1>} {
    %c0 = arith.constant 0 : index
    %x = thread.load_global %a[%c0, %c0] dims [0, 1] in_bounds [true, true] : memref<8x65536xf16> -> <1x65536xf16, #long>
    %y = thread.cast %x : <1x65536xf16, #long> -> <1x65536xf32, #long>
    %q = thread.binary mul %y, %y : <1x65536xf32, #long>
    %m = thread.reduce max %y dim 1 {scratch = 0 : i64} : <1x65536xf32, #long> -> <1x1xf32, #row>
    %n = thread.broadcast %m dim 1 : <1x1xf32, #row> -> <1x65536xf32, #long>
    %d = thread.binary sub %q, %n : <1x65536xf32, #long>
    %r = thread.cast %d : <1x65536xf32, #long> -> <1x65536xf16, #long>
    thread.store_global %r, %b[%c0, %c0] dims [0, 1] in_bounds [true, true] : <1x65536xf16, #long>, memref<8x65536xf16>
    gpu.return
  }

  // CHECK-LABEL: gpu.func @short
  // CHECK-COUNT-8: arith.extf
  // CHECK-NOT: inline_asm
  // CHECK-NOT: arith.extf
  // CHECK: gpu.return
  gpu.func @short(%a: memref<8x8192xf16>, %b: memref<8x8192xf16>) kernel
      attributes {known_block_size = array<i32: 1024, 1, 1>} {
    %c0 = arith.constant 0 : index
    %x = thread.load_global %a[%c0, %c0] dims [0, 1] in_bounds [true, true] : memref<8x8192xf16> -> <1x8192xf16, #short>
    %y = thread.cast %x : <1x8192xf16, #short> -> <1x8192xf32, #short>
    %m = thread.reduce max %y dim 1 {scratch = 0 : i64} : <1x8192xf32, #short> -> <1x1xf32, #row>
    %n = thread.broadcast %m dim 1 : <1x1xf32, #row> -> <1x8192xf32, #short>
    %d = thread.binary sub %y, %n : <1x8192xf32, #short>
    %r = thread.cast %d : <1x8192xf32, #short> -> <1x8192xf16, #short>
    thread.store_global %r, %b[%c0, %c0] dims [0, 1] in_bounds [true, true] : <1x8192xf16, #short>, memref<8x8192xf16>
    gpu.return
  }
}
