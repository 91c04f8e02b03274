// Rows at odd elements, in shared memory with the same offsets from multiples of 16 bytes: whole lines are
// copied, and filled with zeros after a row's end.
// RUN: mirage-opt %s --mirage-thread-to-ptx --mirage-print-ptx -o /dev/null | FileCheck %s
// RUN: %execute %s --expect 'a1 = np.zeros((16, 32)); a1[:15, :5] = a0[8:, 32:]; a2 = np.zeros((16, 32)); a2[:13] = a0[10:, 3:35]'

// Rows of 74 bytes: 10 after a multiple of 16, like those of 64 + 26. Threads have pairs of a row, the lanes
// of a warp eight rows.
!tile = !thread.shared<16x32xf16, pad = 13>
#pairs = #thread.layout<reg = [[0, 1], [8, 0], [0, 8], [0, 16]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
!pairs = !thread.fragment<16x32xf16, #pairs>

gpu.module @kernels {
  gpu.func @k(%x: memref<23x37xf16>, %lines: memref<16x32xf16>, %elements: memref<16x32xf16>) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c3 = arith.constant 3 : index
    %c8 = arith.constant 8 : index
    %c10 = arith.constant 10 : index
    %c32 = arith.constant 32 : index
    %s = thread.shared_alloc 0 : !tile
    %t = thread.shared_alloc 1536 : !tile
    // A line of each row for 4 threads, twice 8 rows; then the line in which rows end.
    // CHECK-COUNT-3: cp.async.cg.shared.global {{.*}}, 16, {{%r[0-9]+|0}};
    // CHECK-NOT: cp.async.cg
    thread.copy_async %x[%c8, %c32] dims [0, 1] in_bounds [false, false] to %s : memref<23x37xf16> to !tile
    // Tiles that do not start at lines go through registers.
    // CHECK: ld.global{{(\.nc)?}}.b16
    thread.copy_async %x[%c10, %c3] dims [0, 1] in_bounds [false, true] to %t : memref<23x37xf16> to !tile
    thread.copy_commit
    thread.copy_wait 0
    thread.barrier
    // Two words for a pair, or one if it starts at a word.
    // CHECK: ld.shared.b32
    // CHECK: ld.shared.b32
    // CHECK: {{prmt.b32.f4e|shf.r}}
    // CHECK-NOT: ld.shared.b16
    %a = thread.load_shared %s : !tile -> !pairs
    %b = thread.load_shared %t : !tile -> !pairs
    thread.store_global %a, %lines[%c0, %c0] dims [0, 1] in_bounds [true, true] : !pairs, memref<16x32xf16>
    thread.store_global %b, %elements[%c0, %c0] dims [0, 1] in_bounds [true, true] : !pairs, memref<16x32xf16>
    gpu.return
  }
}
