// RUN: mirage-opt %s --mirage-choose-engine --mirage-assign-layouts --mirage-pipeline-loops --mirage-convert-block-to-thread --canonicalize | FileCheck %s

// The only products of a step have a factor that the step computes. They run while the
// next step's factor is computed, and the warps wait for them before they write it.

// CHECK-LABEL: gpu.func @computed_0
// CHECK: thread.warps first 0 count 4
// CHECK: scf.for %[[J:.*]] = %c0 to %{{.*}} iter_args(%[[SUM:.*]] = %{{.*}})
// CHECK: %[[S:.*]] = thread.unary silu
// CHECK: %[[DONE:.*]]:2 = thread.wgmma_wait 0(%[[SUM]], %[[S]])
// CHECK: %[[F:.*]] = thread.cast %[[DONE]]#1
// CHECK: %[[P:.*]] = thread.wgmma %[[F]], %{{.*}}, %[[DONE]]#0
// CHECK-NEXT: thread.wgmma_commit
// CHECK-NOT: thread.wgmma_wait
// CHECK: scf.yield %[[P]]
// CHECK: thread.wgmma_wait 0
kernel.graph @computed(%x: tensor<64x192xf16>, %w: tensor<192x64xf16>) -> tensor<64x64xf32>
  attributes {form = #kernel.form<selected>} {
  %r = kernel.launch(%x, %w) grid [] schedule <warps = 4, stages = 2, engine = warpgroup>
    : (tensor<64x192xf16>, tensor<192x64xf16>) -> tensor<64x64xf32> {
  ^bb0(%gx: tensor<64x192xf16>, %gw: tensor<192x64xf16>):
    %s = block.loop [k = 3] {
      %a = block.load %gx [[], [k]] : tensor<64x192xf16> -> !block.tile<64x64xf16>
      %u = block.unary silu %a : (!block.tile<64x64xf16>) -> !block.tile<64x64xf32>
      %v = block.cast %u : (!block.tile<64x64xf32>) -> !block.tile<64x64xf16>
      %b = block.load %gw [[k], []] : tensor<192x64xf16> -> !block.tile<64x64xf16>
      %p = block.matmul %v, %b : (!block.tile<64x64xf16>, !block.tile<64x64xf16>) -> !block.tile<64x64xf32>
      block.accumulate sum %p : !block.tile<64x64xf32>
    } : !block.tile<64x64xf32>
    block.store %s [[], []] : !block.tile<64x64xf32>
  }
  kernel.return %r : tensor<64x64xf32>
}
