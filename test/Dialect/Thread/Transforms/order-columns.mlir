// Columns of whole rows that start at any element are ordered if no op depends on their order.
// RUN: mirage-opt %s --mirage-order-columns | FileCheck %s

#row = #thread.layout<reg = [[0, 32], [0, 64], [0, 128], [0, 256], [2, 0]], lane = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], warp = [[1, 0]]>
#sums = #thread.layout<reg = [[2, 0]], lane = [[0, 0], [0, 0], [0, 0], [0, 0], [0, 0]], warp = [[1, 0]]>
#columns = #thread.layout<reg = [[0, 32], [0, 64], [0, 128], [0, 256]], lane = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], warp = [[0, 0]]>
#few = #thread.layout<reg = [[0, 64], [0, 128]], lane = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], warp = [[0, 32]]>
!rows = !thread.fragment<4x512xf16, #row>
!wide = !thread.fragment<4x512xf32, #row>
!sums = !thread.fragment<4x1xf32, #sums>

// The columns of a vector are the lowest digits of a thread, followed by those of lanes; rows are unchanged.
// CHECK: #[[ORDERED:.+]] = #thread.layout<reg = {{\[}}[0, 1], [0, 2], [0, 4], [0, 256], [2, 0]], lane = {{\[}}[0, 8], [0, 16], [0, 32], [0, 64], [0, 128]], warp = {{\[}}[1, 0]]>
gpu.module @kernels {
  // CHECK-LABEL: gpu.func @softmax
  // CHECK: thread.load_global {{.*}} extents [4, 511] ordered : memref<64x511xf16> -> <4x512xf16, #[[ORDERED]]>
  // CHECK: thread.mask {{.*}} <4x512xf32, #[[ORDERED]]>
  // CHECK: thread.reduce sum {{.*}} <4x512xf32, #[[ORDERED]]> -> <4x1xf32, #[[SUMS:.+]]>
  // CHECK: thread.broadcast {{.*}} <4x1xf32, #[[SUMS]]> -> <4x512xf32, #[[ORDERED]]>
  // CHECK: thread.store_global {{.*}} ordered
  gpu.func @softmax(%x: memref<64x511xf16>, %y: memref<64x511xf16>) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %block = gpu.block_id x
    %a = thread.load_global %x[%block, %c0] dims [0, 1] in_bounds [true, true] extents [4, 511] : memref<64x511xf16> -> !rows
    %b = thread.cast %a : !rows -> !wide
    %m = thread.mask %b dim 1 at %c0 extent 511 fill 0.0 : !wide
    %s = thread.reduce sum %m dim 1 : !wide -> !sums
    %t = thread.broadcast %s dim 1 : !sums -> !wide
    %q = thread.binary div %b, %t : !wide
    %h = thread.cast %q : !wide -> !rows
    thread.store_global %h, %y[%block, %c0] dims [0, 1] in_bounds [true, true] extents [4, 511] : !rows, memref<64x511xf16>
    gpu.return
  }
  // The result is stored one row further on, where rows start at other offsets.
  // CHECK-LABEL: gpu.func @other_rows
  // CHECK-NOT: ordered
  gpu.func @other_rows(%x: memref<64x511xf16>, %y: memref<64x511xf16>) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %a = thread.load_global %x[%c0, %c0] dims [0, 1] in_bounds [true, true] extents [4, 511] : memref<64x511xf16> -> !rows
    thread.store_global %a, %y[%c1, %c0] dims [0, 1] in_bounds [true, true] extents [4, 511] : !rows, memref<64x511xf16>
    gpu.return
  }
  // Sums of columns, which are stored to another tensor.
  // CHECK-LABEL: gpu.func @sums_of_columns
  // CHECK-NOT: ordered
  gpu.func @sums_of_columns(%x: memref<64x511xf16>, %y: memref<1x511xf32>) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %a = thread.load_global %x[%c0, %c0] dims [0, 1] in_bounds [true, true] extents [4, 511] : memref<64x511xf16> -> !rows
    %b = thread.cast %a : !rows -> !wide
    %s = thread.reduce sum %b dim 0 : !wide -> !thread.fragment<1x512xf32, #columns>
    thread.store_global %s, %y[%c0, %c0] dims [0, 1] in_bounds [true, true] extents [1, 511] : !thread.fragment<1x512xf32, #columns>, memref<1x511xf32>
    gpu.return
  }
  // Columns that are masked by their number.
  // CHECK-LABEL: gpu.func @some_columns
  // CHECK-NOT: ordered
  gpu.func @some_columns(%x: memref<64x511xf16>, %y: memref<64x511xf16>) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %a = thread.load_global %x[%c0, %c0] dims [0, 1] in_bounds [true, true] extents [4, 511] : memref<64x511xf16> -> !rows
    %b = thread.mask %a dim 1 at %c0 extent 100 fill 0.0 : !rows
    thread.store_global %b, %y[%c0, %c0] dims [0, 1] in_bounds [true, true] extents [4, 511] : !rows, memref<64x511xf16>
    gpu.return
  }
  // Numbers of columns.
  // CHECK-LABEL: gpu.func @numbered
  // CHECK-NOT: ordered
  gpu.func @numbered(%x: memref<64x511xf32>, %y: memref<64x511xf32>) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %a = thread.load_global %x[%c0, %c0] dims [0, 1] in_bounds [true, true] extents [4, 511] : memref<64x511xf32> -> !wide
    %i = thread.iota dim 1 at %c0 : !wide
    %b = thread.binary mul %a, %i : !wide
    thread.store_global %b, %y[%c0, %c0] dims [0, 1] in_bounds [true, true] extents [4, 511] : !wide, memref<64x511xf32>
    gpu.return
  }
  // A tensor that may start anywhere.
  // CHECK-LABEL: gpu.func @starts_anywhere
  // CHECK-NOT: ordered
  gpu.func @starts_anywhere(%x: memref<64x511xf16> {thread.align = 2 : i64}, %y: memref<64x511xf16>) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %a = thread.load_global %x[%c0, %c0] dims [0, 1] in_bounds [true, true] extents [4, 511] : memref<64x511xf16> -> !rows
    thread.store_global %a, %y[%c0, %c0] dims [0, 1] in_bounds [true, true] extents [4, 511] : !rows, memref<64x511xf16>
    gpu.return
  }
  // Parts of rows; rows that start at multiples of 16 bytes; threads that have no vectors.
  // CHECK-LABEL: gpu.func @nothing_to_gain
  // CHECK-NOT: ordered
  gpu.func @nothing_to_gain(%x: memref<64x999xf16>, %y: memref<64x512xf16>, %z: memref<1x255xf16>) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %a = thread.load_global %x[%c0, %c0] dims [0, 1] in_bounds [true, true] : memref<64x999xf16> -> !rows
    thread.store_global %a, %x[%c0, %c0] dims [0, 1] in_bounds [true, true] : !rows, memref<64x999xf16>
    %b = thread.load_global %y[%c0, %c0] dims [0, 1] in_bounds [true, true] : memref<64x512xf16> -> !rows
    thread.store_global %b, %y[%c0, %c0] dims [0, 1] in_bounds [true, true] : !rows, memref<64x512xf16>
    %c = thread.load_global %z[%c0, %c0] dims [0, 1] in_bounds [true, true] extents [1, 255] : memref<1x255xf16> -> !thread.fragment<1x256xf16, #few>
    thread.store_global %c, %z[%c0, %c0] dims [0, 1] in_bounds [true, true] extents [1, 255] : !thread.fragment<1x256xf16, #few>, memref<1x255xf16>
    gpu.return
  }
}
