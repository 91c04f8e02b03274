// RUN: mirage-opt %s --mirage-flatten-tiles --mirage-assign-layouts --mirage-pipeline-loops --mirage-convert-block-to-thread --canonicalize --split-input-file | FileCheck %s
// RUN: %execute %s

// Positions are computed; beyond the end of the tensor they are zero, as for a load.
// CHECK-LABEL: gpu.func @causal_0
// CHECK: thread.iota dim 1 at
// CHECK: thread.mask {{.*}} extent 30 fill 0.0
// CHECK: thread.iota dim 1 at
// CHECK: thread.mask {{.*}} extent 30 fill 0.0
// CHECK: thread.binary le
kernel.graph @causal(%x: tensor<30x30xf32>) -> tensor<30x30xf32> {
  %y = kernel.launch(%x) grid [r = 4, c = 2] schedule <warps = 2, stages = 1> : (tensor<30x30xf32>) -> tensor<30x30xf32> {
  ^bb0(%gx: tensor<30x30xf32>):
    %t = block.load %gx [[r], [c]] : tensor<30x30xf32> -> !block.tile<8x16xf32>
    %i = block.iota dim 0 [r] extent 30 : !block.tile<8xf32>
    %j = block.iota dim 0 [c] extent 30 : !block.tile<16xf32>
    %row = block.reshape %i : (!block.tile<8xf32>) -> !block.tile<8x1xf32>
    %m = block.binary le %j, %row : (!block.tile<16xf32>, !block.tile<8x1xf32>) -> !block.tile<8x16xf32>
    %k = block.binary keep %m, %t : (!block.tile<8x16xf32>, !block.tile<8x16xf32>) -> !block.tile<8x16xf32>
    %n = block.unary not %m : (!block.tile<8x16xf32>) -> !block.tile<8x16xf32>
    %z = block.binary add %k, %n : (!block.tile<8x16xf32>, !block.tile<8x16xf32>) -> !block.tile<8x16xf32>
    block.store %z [[r], [c]] : !block.tile<8x16xf32>
  }
  kernel.return %y : tensor<30x30xf32>
}

// -----

// Truth values are bytes in memory and f32 in registers, in both directions.
// CHECK-LABEL: gpu.func @bytes_0
// CHECK-SAME: memref<12x40xi8>
// CHECK: thread.load_global {{.*}} : memref<12x40xi8> -> {{.*}}xf32, #
// CHECK: thread.load_global {{.*}} : memref<1x40xi64> -> {{.*}}xf32, #
// CHECK: thread.store_global {{.*}}xf32, #{{.*}}>, memref<12x40xi8>
kernel.graph @bytes(%m: tensor<12x40xi1>, %x: tensor<12x40xf16>, %i: tensor<40xi64>) -> (tensor<12x40xi1>, tensor<12x40xf16>, tensor<12x40xi32>) {
  %a, %b, %c = kernel.launch(%m, %x, %i) grid [r = 2] schedule <warps = 1, stages = 1> : (tensor<12x40xi1>, tensor<12x40xf16>, tensor<40xi64>) -> (tensor<12x40xi1>, tensor<12x40xf16>, tensor<12x40xi32>) {
  ^bb0(%gm: tensor<12x40xi1>, %gx: tensor<12x40xf16>, %gi: tensor<40xi64>):
    %tm = block.load %gm [[r], []] : tensor<12x40xi1> -> !block.tile<6x40xf32>
    %tx = block.load %gx [[r], []] : tensor<12x40xf16> -> !block.tile<6x40xf16>
    %ti = block.load %gi [[]] : tensor<40xi64> -> !block.tile<40xf32>
    %n = block.unary not %tm : (!block.tile<6x40xf32>) -> !block.tile<6x40xf32>
    %k = block.binary keep %tm, %tx : (!block.tile<6x40xf32>, !block.tile<6x40xf16>) -> !block.tile<6x40xf32>
    %s = block.binary add %tm, %ti : (!block.tile<6x40xf32>, !block.tile<40xf32>) -> !block.tile<6x40xf32>
    block.store %n [[r], []], %k [[r], []], %s [[r], []] : !block.tile<6x40xf32>, !block.tile<6x40xf32>, !block.tile<6x40xf32>
  }
  kernel.return %a, %b, %c : tensor<12x40xi1>, tensor<12x40xf16>, tensor<12x40xi32>
}

// -----

// Rows of a table by index: vectors of a row where rows are aligned.
// CHECK-LABEL: gpu.func @rows_0
// CHECK: thread.gather_global %{{.*}}, %{{.*}}[{{.*}}] index_rank 2 dims [1, 2] in_bounds [false, true]
kernel.graph @rows(%table: tensor<11x64xf16>, %ids: tensor<2x13xi64>) -> tensor<2x13x64xf16> {
  %y = kernel.launch(%table, %ids) grid [b = 2, r = 2] schedule <warps = 2, stages = 1> : (tensor<11x64xf16>, tensor<2x13xi64>) -> tensor<2x13x64xf16> {
  ^bb0(%gt: tensor<11x64xf16>, %gi: tensor<2x13xi64>):
    %t = block.gather %gt, %gi [[b], [r], []] : tensor<11x64xf16>, tensor<2x13xi64> -> !block.tile<1x8x64xf16>
    %s = block.unary square %t : (!block.tile<1x8x64xf16>) -> !block.tile<1x8x64xf32>
    %m = block.reduce sum %s dims [2] : (!block.tile<1x8x64xf32>) -> !block.tile<1x8x1xf32>
    %y = block.binary mul %t, %m : (!block.tile<1x8x64xf16>, !block.tile<1x8x1xf32>) -> !block.tile<1x8x64xf32>
    block.store %y [[b], [r], []] : !block.tile<1x8x64xf32>
  }
  kernel.return %y : tensor<2x13x64xf16>
}

// -----

// Rows that a loop goes through, one after the other, and columns in parts.
// CHECK-LABEL: gpu.func @steps_0
// CHECK: scf.for
// CHECK: thread.gather_global
kernel.graph @steps(%table: tensor<9x30xf32>, %ids: tensor<10xi32>) -> tensor<30xf32> {
  %y = kernel.launch(%table, %ids) grid [c = 2] schedule <warps = 1, stages = 2> : (tensor<9x30xf32>, tensor<10xi32>) -> tensor<30xf32> {
  ^bb0(%gt: tensor<9x30xf32>, %gi: tensor<10xi32>):
    %s = block.loop [k = 3] {
      %t = block.gather %gt, %gi [[k], [c]] : tensor<9x30xf32>, tensor<10xi32> -> !block.tile<4x16xf32>
      %r = block.reduce sum %t dims [0] : (!block.tile<4x16xf32>) -> !block.tile<1x16xf32>
      block.accumulate sum %r : !block.tile<1x16xf32>
    } : !block.tile<1x16xf32>
    %z = block.reshape %s : (!block.tile<1x16xf32>) -> !block.tile<16xf32>
    block.store %z [[c]] : !block.tile<16xf32>
  }
  kernel.return %y : tensor<30xf32>
}

// -----

// Rows that a product reads go to shared memory, some steps ahead of it.
// CHECK-LABEL: gpu.func @looked_up_0
// CHECK: thread.gather_async %{{.*}}, %{{.*}}[{{.*}}] index_rank 2 dims [1, 2] in_bounds [false, true] to
// CHECK: thread.read_indices {{.*}} -> vector<2xi64>
// CHECK: scf.for
// CHECK: thread.copy_wait 0
// CHECK: thread.gather_async {{.*}} when {{.*}} rows
// CHECK: thread.copy_commit
// CHECK: thread.read_indices {{.*}} -> vector<2xi64>
// CHECK: thread.load_shared {{.*}} transposed
// CHECK: thread.mma
kernel.graph @looked_up(%q: tensor<2x24x64xf16>, %table: tensor<11x64xf16>, %ids: tensor<2x50xi64>) -> tensor<2x24x64xf16> {
  %y = kernel.launch(%q, %table, %ids) grid [b = 2] schedule <warps = 2, stages = 2> : (tensor<2x24x64xf16>, tensor<11x64xf16>, tensor<2x50xi64>) -> tensor<2x24x64xf16> {
  ^bb0(%gq: tensor<2x24x64xf16>, %gt: tensor<11x64xf16>, %gi: tensor<2x50xi64>):
    %x = block.load %gq [[b], [], []] : tensor<2x24x64xf16> -> !block.tile<1x24x64xf16>
    %s = block.loop [k = 4] {
      %t = block.gather %gt, %gi [[b], [k], []] : tensor<11x64xf16>, tensor<2x50xi64> -> !block.tile<1x16x64xf16>
      %tt = block.transpose %t [0, 2, 1] : (!block.tile<1x16x64xf16>) -> !block.tile<1x64x16xf16>
      %p = block.matmul %x, %tt : (!block.tile<1x24x64xf16>, !block.tile<1x64x16xf16>) -> !block.tile<1x24x16xf32>
      %h = block.cast %p : (!block.tile<1x24x16xf32>) -> !block.tile<1x24x16xf16>
      %v = block.matmul %h, %t : (!block.tile<1x24x16xf16>, !block.tile<1x16x64xf16>) -> !block.tile<1x24x64xf32>
      block.accumulate sum %v : !block.tile<1x24x64xf32>
    } : !block.tile<1x24x64xf32>
    block.store %s [[b], [], []] : !block.tile<1x24x64xf32>
  }
  kernel.return %y : tensor<2x24x64xf16>
}

// -----

// One plane by index, outside of loops.
// CHECK-LABEL: gpu.func @planes_0
// CHECK: thread.gather_async %{{.*}}, %{{.*}}[{{.*}}] index_rank 1 dims [1, 2]
// CHECK: thread.copy_wait 0
kernel.graph @planes(%x: tensor<3x16x32xf16>, %table: tensor<5x32x24xf16>, %ids: tensor<3xi32>) -> tensor<3x16x24xf16> {
  %y = kernel.launch(%x, %table, %ids) grid [b = 3] schedule <warps = 1, stages = 1> : (tensor<3x16x32xf16>, tensor<5x32x24xf16>, tensor<3xi32>) -> tensor<3x16x24xf16> {
  ^bb0(%gx: tensor<3x16x32xf16>, %gt: tensor<5x32x24xf16>, %gi: tensor<3xi32>):
    %a = block.load %gx [[b], [], []] : tensor<3x16x32xf16> -> !block.tile<1x16x32xf16>
    %w = block.gather %gt, %gi [[b], [], []] : tensor<5x32x24xf16>, tensor<3xi32> -> !block.tile<1x32x24xf16>
    %p = block.matmul %a, %w : (!block.tile<1x16x32xf16>, !block.tile<1x32x24xf16>) -> !block.tile<1x16x24xf32>
    block.store %p [[b], [], []] : !block.tile<1x16x24xf32>
  }
  kernel.return %y : tensor<3x16x24xf16>
}

// -----

// Rows of 12 bytes are read into registers.
// CHECK-LABEL: gpu.func @narrow_0
// CHECK-NOT: thread.gather_async
// CHECK: thread.gather_global
kernel.graph @narrow(%x: tensor<16x16xf16>, %table: tensor<7x6xf16>, %ids: tensor<16xi64>) -> tensor<16x6xf16> {
  %y = kernel.launch(%x, %table, %ids) grid [b = 1] schedule <warps = 1, stages = 1> : (tensor<16x16xf16>, tensor<7x6xf16>, tensor<16xi64>) -> tensor<16x6xf16> {
  ^bb0(%gx: tensor<16x16xf16>, %gt: tensor<7x6xf16>, %gi: tensor<16xi64>):
    %a = block.load %gx [[b], []] : tensor<16x16xf16> -> !block.tile<16x16xf16>
    %w = block.gather %gt, %gi [[], []] : tensor<7x6xf16>, tensor<16xi64> -> !block.tile<16x6xf16>
    %p = block.matmul %a, %w : (!block.tile<16x16xf16>, !block.tile<16x6xf16>) -> !block.tile<16x6xf32>
    block.store %p [[b], []] : !block.tile<16x6xf32>
  }
  kernel.return %y : tensor<16x6xf16>
}
