// RUN: mirage-opt %s --mirage-choose-engine --mirage-assign-layouts --mirage-pipeline-loops --mirage-convert-block-to-thread --canonicalize --split-input-file | FileCheck %s
// RUN: %execute %s

// The last of three tiles of 64 of 130 rows begins at row 66, not at 128, and does not overhang the end.
// Columns are cut into whole tiles.
// CHECK-LABEL: gpu.func @rows_0
// CHECK-DAG: %[[LAST:.*]] = arith.constant 66 : index
// CHECK: %[[ROW:.*]] = arith.minui %{{.*}}, %[[LAST]]
// CHECK: thread.ring_fill {{.*}} at %[[ROW]],
// CHECK: %[[STORED:.*]] = arith.minui %{{.*}}, %[[LAST]]
// CHECK: thread.tma_store {{.*}}[%[[STORED]],
kernel.graph @rows(%a: tensor<130x192xf16>, %b: tensor<192x128xf16>) -> tensor<130x128xf16> attributes {form = #kernel.form<selected>} {
  %r = kernel.launch(%a, %b) grid [m = 3, n = 2] schedule <warps = 4, stages = 2, engine = warpgroup> : (tensor<130x192xf16>, tensor<192x128xf16>) -> tensor<130x128xf16> {
  ^bb0(%ga: tensor<130x192xf16>, %gb: tensor<192x128xf16>):
    %s = block.loop [k = 3] {
      %x = block.load %ga [[m], [k]] : tensor<130x192xf16> -> !block.tile<64x64xf16>
      %y = block.load %gb [[k], [n]] : tensor<192x128xf16> -> !block.tile<64x64xf16>
      %p = block.matmul %x, %y : (!block.tile<64x64xf16>, !block.tile<64x64xf16>) -> !block.tile<64x64xf32>
      block.accumulate sum %p : !block.tile<64x64xf32>
    } : !block.tile<64x64xf32>
    %o = block.cast %s : (!block.tile<64x64xf32>) -> !block.tile<64x64xf16>
    block.store %o [[m], [n]] : !block.tile<64x64xf16>
  }
  kernel.return %r : tensor<130x128xf16>
}

// -----

// A sum over the rows of a tile would count some of them twice.
// CHECK-LABEL: gpu.func @sums_0
// CHECK-NOT: arith.minui
kernel.graph @sums(%a: tensor<130x192xf16>, %b: tensor<192x128xf16>) -> (tensor<130x128xf16>, tensor<3x128xf32>) attributes {form = #kernel.form<selected>} {
  %r:2 = kernel.launch(%a, %b) grid [m = 3, n = 2] schedule <warps = 4, stages = 2, engine = warpgroup> : (tensor<130x192xf16>, tensor<192x128xf16>) -> (tensor<130x128xf16>, tensor<3x128xf32>) {
  ^bb0(%ga: tensor<130x192xf16>, %gb: tensor<192x128xf16>):
    %s = block.loop [k = 3] {
      %x = block.load %ga [[m], [k]] : tensor<130x192xf16> -> !block.tile<64x64xf16>
      %y = block.load %gb [[k], [n]] : tensor<192x128xf16> -> !block.tile<64x64xf16>
      %p = block.matmul %x, %y : (!block.tile<64x64xf16>, !block.tile<64x64xf16>) -> !block.tile<64x64xf32>
      block.accumulate sum %p : !block.tile<64x64xf32>
    } : !block.tile<64x64xf32>
    %o = block.cast %s : (!block.tile<64x64xf32>) -> !block.tile<64x64xf16>
    %t = block.reduce sum %s dims [0] : (!block.tile<64x64xf32>) -> !block.tile<1x64xf32>
    block.store %o [[m], [n]], %t [[m], [n]] : !block.tile<64x64xf16>, !block.tile<1x64xf32>
  }
  kernel.return %r#0, %r#1 : tensor<130x128xf16>, tensor<3x128xf32>
}
