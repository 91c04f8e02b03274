// RUN: mirage-opt %s --mirage-flatten-tiles --mirage-assign-layouts --mirage-pipeline-loops --mirage-convert-block-to-thread --canonicalize --split-input-file | FileCheck %s
// RUN: %execute %s

// Each operand is loaded along its own dimensions, as 64-bit integers. Elements beyond the tensor are zero,
// as for a load of the result.
// CHECK-LABEL: gpu.func @pairs_0
// CHECK: %[[A:.*]] = thread.load_global {{.*}} dims [1, -1] in_bounds [false, true] {{.*}} : memref<1x30xi64> -> <{{[0-9]+}}x1xi64
// CHECK: %[[WIDE:.*]] = thread.broadcast %[[A]]
// CHECK: thread.load_global {{.*}} dims [-1, 1] in_bounds [true, false] {{.*}} : memref<1x45xi32> -> <1x{{[0-9]+}}xi64
// CHECK: %[[M:.*]] = thread.integers %[[WIDE]], %{{.*}} ["load 0", "load 1", "le 1 0 : i1"]
// CHECK: thread.mask %[[M]] dim 0 {{.*}} extent 30 fill 0.0
// CHECK: thread.mask {{.*}} dim 1 {{.*}} extent 45 fill 0.0
kernel.graph @pairs(%a: tensor<30xi64>, %b: tensor<45xi32>, %x: tensor<30x45xf32>) -> tensor<30x1xf32> {
  %y = kernel.launch(%a, %b, %x) grid [r = 2] schedule <warps = 2, stages = 1> : (tensor<30xi64>, tensor<45xi32>, tensor<30x45xf32>) -> tensor<30x1xf32> {
  ^bb0(%ga: tensor<30xi64>, %gb: tensor<45xi32>, %gx: tensor<30x45xf32>):
    %s = block.loop [c = 3] {
      %m = block.integers %ga, %gb [[r], [c]] of [30, 45] ["load 0", "load 1", "le 1 0 : i1"] : (tensor<30xi64>, tensor<45xi32>) -> !block.tile<16x16xf32>
      %t = block.load %gx [[r], [c]] : tensor<30x45xf32> -> !block.tile<16x16xf32>
      %k = block.binary add %m, %t : (!block.tile<16x16xf32>, !block.tile<16x16xf32>) -> !block.tile<16x16xf32>
      %q = block.reduce sum %k dims [1] : (!block.tile<16x16xf32>) -> !block.tile<16x1xf32>
      block.accumulate sum %q : !block.tile<16x1xf32>
    } : !block.tile<16x1xf32>
    block.store %s [[r], []] : !block.tile<16x1xf32>
  }
  kernel.return %y : tensor<30x1xf32>
}

// -----

// Integers are stored unchanged, and wrap around at the ends of their type. Operands are transposed, and
// positions computed; no tile of another dimension's end is read.
// CHECK-LABEL: gpu.func @stored_0
// CHECK: thread.load_global {{.*}} dims [1, 0] {{.*}} when %{{.*}} : memref<12x11xi8> -> <{{.*}}xi64
// CHECK: thread.iota dim 1 {{.*}}xi64
// CHECK: thread.splat {{.*}} : i64 -> <{{.*}}xi64
// CHECK: thread.store_global {{.*}}xi64, #{{.*}}>, memref<5x11x12xi8>
kernel.graph @stored(%a: tensor<12x11xi8>, %x: tensor<5xf16>) -> tensor<5x11x12xi8> {
  %y = kernel.launch(%a, %x) grid [h = 6, r = 2] schedule <warps = 1, stages = 1> : (tensor<12x11xi8>, tensor<5xf16>) -> tensor<5x11x12xi8> {
  ^bb0(%ga: tensor<12x11xi8>, %gx: tensor<5xf16>):
    %t = block.integers %ga, %gx [[h], [r], []] of [5, 11, 12] ["load 2 1", "load 0", "position 2 : i64", "position 0 : i64", "constant 100 : i8", "mul 0 4 : i8", "cast 1 : i8", "add 5 6 : i8", "add 2 7 : i8", "sub 8 3 : i8"] : (tensor<12x11xi8>, tensor<5xf16>) -> !block.tile<1x8x12xi64>
    block.store %t [[h], [r], []] : !block.tile<1x8x12xi64>
  }
  kernel.return %y : tensor<5x11x12xi8>
}

// -----

// Elements of a table are picked where they are used; those at an index outside are zero.
// CHECK-LABEL: gpu.func @picked_0
// CHECK: thread.integers %{{.*}}, %{{.*}}, %{{.*}} tables(%{{.*}} : memref<11x12xi16>)
kernel.graph @picked(%a: tensor<11x12xi16>, %b: tensor<5x1xi64>) -> tensor<5x17xi16> {
  %y = kernel.launch(%a, %b) grid [r = 3, c = 2] schedule <warps = 1, stages = 1> : (tensor<11x12xi16>, tensor<5x1xi64>) -> tensor<5x17xi16> {
  ^bb0(%ga: tensor<11x12xi16>, %gb: tensor<5x1xi64>):
    %t = block.integers %ga, %gb [[r], [c]] of [5, 17] ["table 2", "load 0 -1", "position 0 : i64", "position 1 : i64", "constant 4 : i64", "sub 3 4 : i64", "constant 2 : i64", "mul 2 6 : i64", "pick 0 7 5 : i16", "add 8 1 : i16"] : (tensor<11x12xi16>, tensor<5x1xi64>) -> !block.tile<2x16xi64>
    block.store %t [[r], [c]] : !block.tile<2x16xi64>
  }
  kernel.return %y : tensor<5x17xi16>
}

// -----

// Elements of a table of floats end a formula; those at an index outside are NaN.
// CHECK-LABEL: gpu.func @picked_floats_0
// CHECK: thread.integers {{.*}} tables(%{{.*}} : memref<7x12xf16>) ["table 2", "load 0 -1", "position 1 : i64", "pick 0 1 2 : f16"]
kernel.graph @picked_floats(%a: tensor<7x12xf16>, %b: tensor<5x1xi32>) -> tensor<5x12xf16> {
  %y = kernel.launch(%a, %b) grid [r = 3] schedule <warps = 1, stages = 1> : (tensor<7x12xf16>, tensor<5x1xi32>) -> tensor<5x12xf16> {
  ^bb0(%ga: tensor<7x12xf16>, %gb: tensor<5x1xi32>):
    %t = block.integers %ga, %gb [[r], []] of [5, 12] ["table 2", "load 0 -1", "position 1 : i64", "pick 0 1 2 : f16"] : (tensor<7x12xf16>, tensor<5x1xi32>) -> !block.tile<2x12xf16>
    block.store %t [[r], []] : !block.tile<2x12xf16>
  }
  kernel.return %y : tensor<5x12xf16>
}
