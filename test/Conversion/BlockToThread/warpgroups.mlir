// RUN: mirage-opt %s --mirage-choose-engine --mirage-assign-layouts --mirage-pipeline-loops --mirage-convert-block-to-thread --canonicalize | FileCheck %s
// RUN: %execute %s

// An additional group of four warps, one of which copies; tensor maps of the factors and of the result are
// parameters after the tensors.
// CHECK: kernel.invoke @product_kernels::@product_0(%{{.*}}, %{{.*}}) grid [4, 1, 1] block [384, 1, 1] shared 0
// CHECK-SAME: maps [#kernel.tensor_map<parameter = 0, box = [128, 64], swizzle = 128>, #kernel.tensor_map<parameter = 1, box = [64, 64], swizzle = 128>, #kernel.tensor_map<parameter = 2, box = [128, 64], swizzle = 128>]
// CHECK: gpu.func @product_0(%{{.*}}: memref<256x192xf16>, %{{.*}}: memref<192x256xf16>, %{{.*}}: memref<256x256xf16>, %[[MA:.*]]: !thread.tensormap<128x64xf16, swizzle = 128>, %[[MB:.*]]: !thread.tensormap<64x64xf16, swizzle = 128>, %[[MC:.*]]: !thread.tensormap<128x64xf16, swizzle = 128>)
// CHECK: %[[RING:.*]] = thread.ring_create readers 8 : <2, <128x64xf16, swizzle = 128>, <64x128xf16, swizzle = 128>>
// CHECK: thread.warps first 8 count 1 barrier 2 {
// CHECK: scf.for %[[K:.*]] =
// CHECK: thread.ring_fill %[[RING]] step %[[K]] from %[[MA]], %[[MB]] at
// CHECK: thread.warps first 0 count 8 barrier 1 {
// CHECK: %[[SUM:.*]] = scf.for %[[K:.*]] = {{.*}} iter_args(%[[ACC:.*]] =
// CHECK: %[[TILES:.*]]:2 = thread.ring_wait %[[RING]] step %[[K]]
// CHECK: %[[NEXT:.*]] = thread.wgmma %[[TILES]]#0, %[[TILES]]#1, %[[ACC]]
// CHECK: thread.wgmma_commit
// The products of the previous step are complete, and its tiles are free.
// CHECK: thread.wgmma_wait 1{{$}}
// CHECK: scf.if
// CHECK: %[[BEFORE:.*]] = arith.subi %[[K]], %c1
// CHECK: thread.ring_release %[[RING]] step %[[BEFORE]]
// CHECK: scf.yield %[[NEXT]]
// CHECK: %[[DONE:.*]] = thread.wgmma_wait 0(%[[SUM]])
// CHECK: thread.ring_release %[[RING]] step %c2
// The epilogue, then out through shared memory.
// CHECK: thread.unary silu %[[DONE]]
// CHECK: %[[OUT:.*]] = thread.cast
// CHECK: %[[TILE:.*]] = thread.shared_alloc 0 : <128x128xf16, swizzle = 128>
// CHECK: thread.store_shared %[[OUT]], %[[TILE]]
// CHECK: thread.fence async_proxy
// CHECK: thread.barrier
// CHECK: thread.tma_store %[[TILE]] to %[[MC]]
// CHECK: thread.bulk_commit
// CHECK: thread.bulk_wait 0
kernel.graph @product(%a: tensor<256x192xf16>, %b: tensor<192x256xf16>) -> tensor<256x256xf16> attributes {form = #kernel.form<selected>} {
  %r = kernel.launch(%a, %b) grid [m = 2, n = 2] schedule <warps = 8, stages = 2, engine = warpgroup> : (tensor<256x192xf16>, tensor<192x256xf16>) -> tensor<256x256xf16> {
  ^bb0(%ga: tensor<256x192xf16>, %gb: tensor<192x256xf16>):
    %s = block.loop [k = 3] {
      %x = block.load %ga [[m], [k]] : tensor<256x192xf16> -> !block.tile<128x64xf16>
      %y = block.load %gb [[k], [n]] : tensor<192x256xf16> -> !block.tile<64x128xf16>
      %p = block.matmul %x, %y : (!block.tile<128x64xf16>, !block.tile<64x128xf16>) -> !block.tile<128x128xf32>
      block.accumulate sum %p : !block.tile<128x128xf32>
    } : !block.tile<128x128xf32>
    %u = block.unary silu %s : (!block.tile<128x128xf32>) -> !block.tile<128x128xf32>
    %o = block.cast %u : (!block.tile<128x128xf32>) -> !block.tile<128x128xf16>
    block.store %o [[m], [n]] : !block.tile<128x128xf16>
  }
  kernel.return %r : tensor<256x256xf16>
}
