// RUN: mirage-opt %s --mirage-flatten-tiles --mirage-assign-layouts --mirage-pipeline-loops --mirage-mask-padding --mirage-convert-block-to-thread --canonicalize --split-input-file | FileCheck %s
// RUN: %execute %s

// A block adds whole tiles, and lanes and warps exchange their totals in 64 bits.
// CHECK-LABEL: gpu.func @sums_0
// CHECK: %[[S:.*]] = scf.for
// CHECK: %[[X:.*]] = thread.load_global {{.*}} : memref<5x1000xi32> -> <{{.*}}xi64
// CHECK: thread.binary add %{{.*}}, %[[X]] : <{{.*}}xi64
// CHECK: thread.reduce sum %[[S]] dim 1 {{.*}}xi64
// CHECK: thread.store_global {{.*}}xi64, #{{.*}}>, memref<5x1xi64>
kernel.graph @sums(%a: tensor<5x1000xi32>) -> tensor<5x1xi64> {
  %y = kernel.launch(%a) grid [r = 5] schedule <warps = 2, stages = 1> : (tensor<5x1000xi32>) -> tensor<5x1xi64> {
  ^bb0(%ga: tensor<5x1000xi32>):
    %s = block.loop [k = 4] {
      %x = block.load %ga [[r], [k]] : tensor<5x1000xi32> -> !block.tile<1x256xi64>
      block.accumulate sum %x : !block.tile<1x256xi64>
    } : !block.tile<1x256xi64>
    %t = block.reduce sum %s dims [1] : (!block.tile<1x256xi64>) -> !block.tile<1x1xi64>
    block.store %t [[r], []] : !block.tile<1x1xi64>
  }
  kernel.return %y : tensor<5x1xi64>
}

// -----

// The maximum of no elements is the least integer, beyond the tensor and in the padding of registers.
// CHECK-LABEL: gpu.func @maxima_0
// CHECK: thread.constant 0xFFF0000000000000 : <{{.*}}xi64
// CHECK: thread.mask {{.*}} dim 0 {{.*}} fill 0xFFF0000000000000
// CHECK: thread.reduce max {{.*}} dim 0
kernel.graph @maxima(%a: tensor<50x12xi64>) -> tensor<1x12xi64> {
  %y = kernel.launch(%a) grid [c = 2] schedule <warps = 2, stages = 1> : (tensor<50x12xi64>) -> tensor<1x12xi64> {
  ^bb0(%ga: tensor<50x12xi64>):
    %s = block.loop [k = 3] {
      %x = block.load %ga [[k], [c]] : tensor<50x12xi64> -> !block.tile<17x6xi64>
      %z = block.map_integers %x ["load", "constant -10 : i64", "add 0 1 : i64"] : (!block.tile<17x6xi64>) -> !block.tile<17x6xi64>
      %m = block.mask %z dim 0 [k] extent 50 fill 0xFFF0000000000000 : !block.tile<17x6xi64>
      block.accumulate max %m : !block.tile<17x6xi64>
    } : !block.tile<17x6xi64>
    %t = block.reduce max %s dims [0] : (!block.tile<17x6xi64>) -> !block.tile<1x6xi64>
    block.store %t [[], [c]] : !block.tile<1x6xi64>
  }
  kernel.return %y : tensor<1x12xi64>
}

// -----

// Running sums, and a formula of them and of another tensor's elements for each row.
// CHECK-LABEL: gpu.func @so_far_0
// CHECK: %[[C:.*]] = thread.cumulate sum {{.*}} dim 1 {{.*}}xi64
// CHECK: thread.integers {{.*}}%[[C]], %{{.*}} ["load", "load", "add 0 1 : i64", "mul 2 0 : i64"]
kernel.graph @so_far(%a: tensor<5x300xi16>, %b: tensor<5x1xi64>) -> tensor<5x300xi64> {
  %y = kernel.launch(%a, %b) grid [r = 5] schedule <warps = 2, stages = 1> : (tensor<5x300xi16>, tensor<5x1xi64>) -> tensor<5x300xi64> {
  ^bb0(%ga: tensor<5x300xi16>, %gb: tensor<5x1xi64>):
    %x = block.load %ga [[r], []] : tensor<5x300xi16> -> !block.tile<1x300xi64>
    %c = block.cumulate sum %x dim 1 : (!block.tile<1x300xi64>) -> !block.tile<1x300xi64>
    %o = block.load %gb [[r], []] : tensor<5x1xi64> -> !block.tile<1x1xi64>
    %z = block.map_integers %c, %o ["load", "load", "add 0 1 : i64", "mul 2 0 : i64"] : (!block.tile<1x300xi64>, !block.tile<1x1xi64>) -> !block.tile<1x300xi64>
    block.store %z [[r], []] : !block.tile<1x300xi64>
  }
  kernel.return %y : tensor<5x300xi64>
}
