// RUN: mirage-opt %s --mirage-assign-layouts --mirage-pipeline-loops | FileCheck %s
// RUN: mirage-opt %s --mirage-assign-layouts --mirage-pipeline-loops=chip=sm_86 2>&1 | FileCheck %s --check-prefix=SMALL
// RUN: %execute %s

// Rings have as many slots as there are stages, at most one a step.
// CHECK-LABEL: kernel.graph @rings
// CHECK: block.loop [k = 32] attributes {stages = 8 : i64}
// CHECK: block.load %{{.*}} !thread.shared<8x64x64xf16, swizzle = 128>
// CHECK: block.load %{{.*}} !thread.shared<8x64x64xf16, swizzle = 128>
// SMALL: remark: {{.*}}pipeline of 6 stages instead of 8: the latter needs 131072 bytes of shared memory, sm_86 has 101376
// SMALL: stages = 6
kernel.graph @rings(%a: tensor<64x2048xf16>, %b: tensor<2048x64xf16>) -> tensor<64x64xf16> {
  %y = kernel.launch(%a, %b) grid [] schedule <warps = 4, stages = 8> : (tensor<64x2048xf16>, tensor<2048x64xf16>) -> tensor<64x64xf16> {
  ^bb0(%ga: tensor<64x2048xf16>, %gb: tensor<2048x64xf16>):
    %c = block.loop [k = 32] {
      %ta = block.load %ga [[], [k]] : tensor<64x2048xf16> -> !block.tile<64x64xf16>
      %tb = block.load %gb [[k], []] : tensor<2048x64xf16> -> !block.tile<64x64xf16>
      %p = block.matmul %ta, %tb : (!block.tile<64x64xf16>, !block.tile<64x64xf16>) -> !block.tile<64x64xf32>
      block.accumulate sum %p : !block.tile<64x64xf32>
    } : !block.tile<64x64xf32>
    block.store %c [[], []] : !block.tile<64x64xf32>
  }
  kernel.return %y : tensor<64x64xf16>
}

// CHECK-LABEL: kernel.graph @short
// CHECK: block.loop [k = 2] attributes {stages = 2 : i64}
kernel.graph @short(%a: tensor<64x128xf16>, %b: tensor<128x64xf16>) -> tensor<64x64xf16> {
  %y = kernel.launch(%a, %b) grid [] schedule <warps = 4, stages = 4> : (tensor<64x128xf16>, tensor<128x64xf16>) -> tensor<64x64xf16> {
  ^bb0(%ga: tensor<64x128xf16>, %gb: tensor<128x64xf16>):
    %c = block.loop [k = 2] {
      %ta = block.load %ga [[], [k]] : tensor<64x128xf16> -> !block.tile<64x64xf16>
      %tb = block.load %gb [[k], []] : tensor<128x64xf16> -> !block.tile<64x64xf16>
      %p = block.matmul %ta, %tb : (!block.tile<64x64xf16>, !block.tile<64x64xf16>) -> !block.tile<64x64xf32>
      block.accumulate sum %p : !block.tile<64x64xf32>
    } : !block.tile<64x64xf32>
    block.store %c [[], []] : !block.tile<64x64xf32>
  }
  kernel.return %y : tensor<64x64xf16>
}
