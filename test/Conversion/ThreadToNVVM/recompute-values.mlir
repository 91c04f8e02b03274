// What is computed from 16-bit pairs, and needed again after a barrier, is computed again from the
// pairs if a thread of 1024 has no registers for it; it stays as it is if there are enough. What is
// needed only behind the last barrier is then loaded there.
// RUN: mirage-opt %s --pass-pipeline='builtin.module(gpu.module(mirage-convert-thread-to-nvvm,canonicalize{top-down=false},cse,mirage-recompute-values{chip=sm_90a}))' | FileCheck %s

#long = #thread.layout<reg = [[0, 1], [0, 2], [0, 4], [0, 8192], [0, 16384], [0, 32768]], lane = [[0, 8], [0, 16], [0, 32], [0, 64], [0, 128]], warp = [[0, 256], [0, 512], [0, 1024], [0, 2048], [0, 4096]]>
#short = #thread.layout<reg = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [0, 16], [0, 32], [0, 64], [0, 128]], warp = [[0, 256], [0, 512], [0, 1024], [0, 2048], [0, 4096]]>
#half = #thread.layout<reg = [[0, 1], [0, 2], [0, 4], [0, 4096], [0, 8192], [0, 16384], [0, 32768]], lane = [[0, 8], [0, 16], [0, 32], [0, 64], [0, 128]], warp = [[0, 256], [0, 512], [0, 1024], [0, 2048]]>
#halfrow = #thread.layout<reg = [], lane = [[0, 0], [0, 0], [0, 0], [0, 0], [0, 0]], warp = [[0, 0], [0, 0], [0, 0], [0, 0]]>
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

  // Gains are needed only behind the last barrier: 16 bytes are loaded, used and stored at a time.
  // Compilers may not assume that what is stored is no gain, which would let them load all gains
  // first.
  // CHECK-LABEL: gpu.func @gains
  // CHECK-SAME: %[[X:arg[0-9]+]]: !llvm.ptr<1> {llvm.align = 16 : i64, llvm.noalias},
  // CHECK-SAME: %[[G:arg[0-9]+]]: !llvm.ptr<1> {llvm.align = 16 : i64},
  // CHECK-SAME: %[[Y:arg[0-9]+]]: !llvm.ptr<1> {llvm.align = 16 : i64})
  // CHECK-NOT: llvm.getelementptr %[[G]]
  // CHECK: barrier.cta.sync
  // CHECK-NOT: llvm.getelementptr %[[G]]
  // CHECK: barrier.cta.sync
  // CHECK: llvm.getelementptr %[[G]]
  // CHECK: llvm.store {{.*}} !llvm.ptr<1>
  // CHECK: llvm.load {{.*}} !llvm.ptr<1> -> vector<8xf16>
  // CHECK: llvm.store {{.*}} !llvm.ptr<1>
  gpu.func @gains(%a: memref<8x65536xf16>, %g: memref<1x65536xf16>, %b: memref<8x65536xf16>) kernel
      attributes {known_block_size = array<i32: 1024, 1, 1>} {
    %c0 = arith.constant 0 : index
    %x = thread.load_global %a[%c0, %c0] dims [0, 1] in_bounds [true, true] : memref<8x65536xf16> -> <1x65536xf16, #long>
    %h = thread.load_global %g[%c0, %c0] dims [0, 1] in_bounds [true, true] : memref<1x65536xf16> -> <1x65536xf16, #long>
    %y = thread.cast %x : <1x65536xf16, #long> -> <1x65536xf32, #long>
    %k = thread.cast %h : <1x65536xf16, #long> -> <1x65536xf32, #long>
    %p = thread.binary mul %y, %k : <1x65536xf32, #long>
    %m = thread.reduce max %y dim 1 {scratch = 0 : i64} : <1x65536xf32, #long> -> <1x1xf32, #row>
    %n = thread.broadcast %m dim 1 : <1x1xf32, #row> -> <1x65536xf32, #long>
    %d = thread.binary mul %p, %n : <1x65536xf32, #long>
    %r = thread.cast %d : <1x65536xf32, #long> -> <1x65536xf16, #long>
    thread.store_global %r, %b[%c0, %c0] dims [0, 1] in_bounds [true, true] : <1x65536xf16, #long>, memref<8x65536xf16>
    gpu.return
  }

  // With 128 registers, some gains are loaded before the last barrier, but none before the kernel
  // that may write them has ended.
  // CHECK-LABEL: gpu.func @early
  // CHECK-SAME: %[[X:arg[0-9]+]]: !llvm.ptr<1> {llvm.align = 16 : i64, llvm.noalias},
  // CHECK-SAME: %[[G:arg[0-9]+]]: !llvm.ptr<1> {llvm.align = 16 : i64},
  // CHECK: barrier.cta.sync
  // CHECK: llvm.getelementptr %[[G]]
  // CHECK: barrier.cta.sync
  // CHECK: llvm.store {{.*}} !llvm.ptr<1>
  // CHECK-LABEL: gpu.func @waiting
  // CHECK-SAME: %[[X:arg[0-9]+]]: !llvm.ptr<1> {llvm.align = 16 : i64}, %[[G:arg[0-9]+]]: !llvm.ptr<1>
  // CHECK-NOT: llvm.getelementptr %[[G]]
  // CHECK: griddepcontrol.wait
  // CHECK: llvm.getelementptr %[[G]]
  // CHECK: llvm.store {{.*}} !llvm.ptr<1>
  gpu.func @early(%a: memref<8x65536xf16>, %g: memref<1x65536xf16>, %b: memref<8x65536xf16>) kernel
      attributes {known_block_size = array<i32: 512, 1, 1>} {
    %c0 = arith.constant 0 : index
    %x = thread.load_global %a[%c0, %c0] dims [0, 1] in_bounds [true, true] : memref<8x65536xf16> -> <1x65536xf16, #half>
    %y = thread.cast %x : <1x65536xf16, #half> -> <1x65536xf32, #half>
    %m = thread.reduce max %y dim 1 {scratch = 0 : i64} : <1x65536xf32, #half> -> <1x1xf32, #halfrow>
    %n = thread.broadcast %m dim 1 : <1x1xf32, #halfrow> -> <1x65536xf32, #half>
    %d = thread.binary mul %y, %n : <1x65536xf32, #half>
    %h = thread.load_global %g[%c0, %c0] dims [0, 1] in_bounds [true, true] : memref<1x65536xf16> -> <1x65536xf16, #half>
    %k = thread.cast %h : <1x65536xf16, #half> -> <1x65536xf32, #half>
    %p = thread.binary mul %d, %k : <1x65536xf32, #half>
    %r = thread.cast %p : <1x65536xf32, #half> -> <1x65536xf16, #half>
    thread.store_global %r, %b[%c0, %c0] dims [0, 1] in_bounds [true, true] : <1x65536xf16, #half>, memref<8x65536xf16>
    gpu.return
  }
  gpu.func @waiting(%a: memref<8x65536xf16>, %g: memref<1x65536xf16>, %b: memref<8x65536xf16>) kernel
      attributes {known_block_size = array<i32: 512, 1, 1>} {
    %c0 = arith.constant 0 : index
    %x = thread.load_global %a[%c0, %c0] dims [0, 1] in_bounds [true, true] : memref<8x65536xf16> -> <1x65536xf16, #half>
    %y = thread.cast %x : <1x65536xf16, #half> -> <1x65536xf32, #half>
    %m = thread.reduce max %y dim 1 {scratch = 0 : i64} : <1x65536xf32, #half> -> <1x1xf32, #halfrow>
    %n = thread.broadcast %m dim 1 : <1x1xf32, #halfrow> -> <1x65536xf32, #half>
    %d = thread.binary mul %y, %n : <1x65536xf32, #half>
    thread.dependent_wait
    %h = thread.load_global %g[%c0, %c0] dims [0, 1] in_bounds [true, true] : memref<1x65536xf16> -> <1x65536xf16, #half>
    %k = thread.cast %h : <1x65536xf16, #half> -> <1x65536xf32, #half>
    %p = thread.binary mul %d, %k : <1x65536xf32, #half>
    %r = thread.cast %p : <1x65536xf32, #half> -> <1x65536xf16, #half>
    thread.store_global %r, %b[%c0, %c0] dims [0, 1] in_bounds [true, true] : <1x65536xf16, #half>, memref<8x65536xf16>
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
