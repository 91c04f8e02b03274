// RUN: mirage-opt %s --mirage-choose-engine --mirage-assign-layouts --mirage-pipeline-loops --mirage-convert-block-to-thread --canonicalize --split-input-file | FileCheck %s
// RUN: mirage-opt %s --mirage-choose-engine --mirage-assign-layouts --mirage-pipeline-loops --split-input-file | FileCheck %s --check-prefix=BLOCK

// The second product depends on the first one: it runs in the next step, in parallel
// with that step's first product. The factor from before the loop is a ring of one
// slot.

// BLOCK: %[[S:.*]] = block.matmul {{.*}} {block.order = 0 : i64, block.stage = 0 : i64, warpgroup, warps = array<i64: 4, 1, 1>}
// BLOCK: block.unary silu {{.*}} {block.order = 2 : i64, block.stage = 0 : i64}
// BLOCK: block.cast {{.*}} {block.order = 3 : i64, block.stage = 0 : i64}
// BLOCK: block.matmul {{.*}} {block.order = 1 : i64, block.stage = 1 : i64, warpgroup, warps = array<i64: 4, 1, 1>}

// CHECK-LABEL: gpu.func @hidden_0
// CHECK: %[[X:.*]] = thread.ring_create readers 4 : <1, <64x64xf16, swizzle = 128>>
// CHECK: %[[U:.*]] = thread.ring_create readers 4 : <2, <64x64xf16, swizzle = 128>>
// CHECK: %[[V:.*]] = thread.ring_create readers 4 : <2, <64x64xf16, swizzle = 128>>
// CHECK: thread.warps first 4 count 1
// CHECK: thread.ring_fill %[[X]] step %c0
// CHECK: scf.for %[[J:.*]] = %c0
// CHECK: thread.ring_fill %[[U]] step %[[J]]
// CHECK: thread.ring_fill %[[V]] step %[[J]]
// CHECK: thread.warps first 0 count 4
// CHECK: %[[TX:.*]] = thread.ring_wait %[[X]] step %c0
// The first step.
// CHECK: %[[T0:.*]] = thread.ring_wait %[[U]] step %c0
// CHECK: %[[P0:.*]] = thread.wgmma %[[TX]], %[[T0]], %{{.*}} {from_zero}
// CHECK: thread.wgmma_commit
// CHECK: %[[R0:.*]] = thread.wgmma_wait 0(%[[P0]])
// CHECK: thread.ring_release %[[U]] step %c0
// CHECK: %[[S0:.*]] = thread.unary silu %[[R0]]
// CHECK: %[[F0:.*]] = thread.cast %[[S0]]
// CHECK: %[[LOOP:.*]]:2 = scf.for %[[J:.*]] = %c1 to %c3 step %c1 iter_args(%[[SUM:.*]] = %{{.*}}, %[[F:.*]] = %[[F0]])
// CHECK: %[[BEFORE:.*]] = arith.subi %[[J]], %c1
// CHECK: %[[T1:.*]] = thread.ring_wait %[[U]] step %[[J]]
// CHECK: %[[P1:.*]] = thread.wgmma %[[TX]], %[[T1]], %{{.*}} {from_zero}
// CHECK: thread.wgmma_commit
// CHECK: %[[T2:.*]] = thread.ring_wait %[[V]] step %[[BEFORE]]
// CHECK: %[[O:.*]] = thread.wgmma %[[F]], %[[T2]], %[[SUM]]
// CHECK: thread.wgmma_commit
// The first product is complete, the second one still running.
// CHECK: %[[R1:.*]] = thread.wgmma_wait 1(%[[P1]])
// CHECK: thread.ring_release %[[U]] step %[[J]]
// CHECK: %[[S1:.*]] = thread.unary silu %[[R1]]
// The factor of the next step is made after the product that reads this one's.
// CHECK: %[[DONE:.*]]:2 = thread.wgmma_wait 0(%[[O]], %[[S1]])
// CHECK: thread.ring_release %[[V]] step %[[BEFORE]]
// CHECK: %[[F1:.*]] = thread.cast %[[DONE]]#1
// CHECK: scf.yield %[[DONE]]#0, %[[F1]]
// The last step's product.
// CHECK: %[[T3:.*]] = thread.ring_wait %[[V]] step %c2
// CHECK: %[[LAST:.*]] = thread.wgmma %[[LOOP]]#1, %[[T3]], %[[LOOP]]#0
// CHECK: thread.wgmma_commit
// CHECK: thread.wgmma_wait 0(%[[LAST]])
// CHECK: thread.ring_release %[[V]] step %c2
kernel.graph @hidden(%x: tensor<64x64xf16>, %u: tensor<64x192xf16>, %v: tensor<192x64xf16>) -> tensor<64x64xf16> attributes {form = #kernel.form<selected>} {
  %r = kernel.launch(%x, %u, %v) grid [i = 1] schedule <warps = 4, stages = 2, engine = warpgroup> : (tensor<64x64xf16>, tensor<64x192xf16>, tensor<192x64xf16>) -> tensor<64x64xf16> {
  ^bb0(%gx: tensor<64x64xf16>, %gu: tensor<64x192xf16>, %gv: tensor<192x64xf16>):
    %a = block.load %gx [[i], []] : tensor<64x64xf16> -> !block.tile<64x64xf16>
    %e = block.loop [j = 3] {
      %b = block.load %gu [[], [j]] : tensor<64x192xf16> -> !block.tile<64x64xf16>
      %p = block.matmul %a, %b : (!block.tile<64x64xf16>, !block.tile<64x64xf16>) -> !block.tile<64x64xf32>
      %s = block.unary silu %p : (!block.tile<64x64xf32>) -> !block.tile<64x64xf32>
      %c = block.cast %s : (!block.tile<64x64xf32>) -> !block.tile<64x64xf16>
      %d = block.load %gv [[j], []] : tensor<192x64xf16> -> !block.tile<64x64xf16>
      %o = block.matmul %c, %d : (!block.tile<64x64xf16>, !block.tile<64x64xf16>) -> !block.tile<64x64xf32>
      block.accumulate sum %o : !block.tile<64x64xf32>
    } : !block.tile<64x64xf32>
    %f = block.cast %e : (!block.tile<64x64xf32>) -> !block.tile<64x64xf16>
    block.store %f [[i], []] : !block.tile<64x64xf16>
  }
  kernel.return %r : tensor<64x64xf16>
}

// -----

// A value that does not depend on products and is only summed (how much a row attends to) is available before
// the second product, which runs in the next step.

// BLOCK-LABEL: kernel.graph @counted
// BLOCK: block.matmul {{.*}} {block.order = 1 : i64, block.stage = 1 : i64, warpgroup, warps = array<i64: 4, 1, 1>}

// CHECK-LABEL: gpu.func @counted_0
// CHECK: thread.warps first 0 count 4
// CHECK: scf.for %[[J:.*]] = %c1 to %c3 step %c1 iter_args(%[[COUNT:.*]] = %{{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}})
// CHECK: %[[ROW:.*]] = thread.reduce sum
// CHECK: thread.wgmma_wait 0
// CHECK: %[[NEXT:.*]] = thread.binary add %[[COUNT]], %[[ROW]]
// CHECK: scf.yield %[[NEXT]]
kernel.graph @counted(%x: tensor<64x64xf16>, %u: tensor<64x192xf16>, %v: tensor<192x64xf16>, %seen: tensor<64x192xi1>) -> tensor<64x64xf16> attributes {form = #kernel.form<selected>} {
  %r = kernel.launch(%x, %u, %v, %seen) grid [i = 1] schedule <warps = 4, stages = 2, engine = warpgroup> : (tensor<64x64xf16>, tensor<64x192xf16>, tensor<192x64xf16>, tensor<64x192xi1>) -> tensor<64x64xf16> {
  ^bb0(%gx: tensor<64x64xf16>, %gu: tensor<64x192xf16>, %gv: tensor<192x64xf16>, %gseen: tensor<64x192xi1>):
    %a = block.load %gx [[i], []] : tensor<64x64xf16> -> !block.tile<64x64xf16>
    %e:2 = block.loop [j = 3] {
      %t = block.load %gseen [[], [j]] : tensor<64x192xi1> -> !block.tile<64x64xf32>
      %n = block.reduce sum %t dims [1] : (!block.tile<64x64xf32>) -> !block.tile<64x1xf32>
      %b = block.load %gu [[], [j]] : tensor<64x192xf16> -> !block.tile<64x64xf16>
      %p = block.matmul %a, %b : (!block.tile<64x64xf16>, !block.tile<64x64xf16>) -> !block.tile<64x64xf32>
      %s = block.binary mul %p, %t : (!block.tile<64x64xf32>, !block.tile<64x64xf32>) -> !block.tile<64x64xf32>
      %c = block.cast %s : (!block.tile<64x64xf32>) -> !block.tile<64x64xf16>
      %d = block.load %gv [[j], []] : tensor<192x64xf16> -> !block.tile<64x64xf16>
      %o = block.matmul %c, %d : (!block.tile<64x64xf16>, !block.tile<64x64xf16>) -> !block.tile<64x64xf32>
      block.accumulate sum %n, sum %o : !block.tile<64x1xf32>, !block.tile<64x64xf32>
    } : !block.tile<64x1xf32>, !block.tile<64x64xf32>
    %k = block.binary keep %e#0, %e#1 : (!block.tile<64x1xf32>, !block.tile<64x64xf32>) -> !block.tile<64x64xf32>
    %f = block.cast %k : (!block.tile<64x64xf32>) -> !block.tile<64x64xf16>
    block.store %f [[i], []] : !block.tile<64x64xf16>
  }
  kernel.return %r : tensor<64x64xf16>
}
