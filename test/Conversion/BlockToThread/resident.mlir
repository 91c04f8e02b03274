// RUN: mirage-opt %s --mirage-choose-engine --mirage-assign-layouts --mirage-pipeline-loops --mirage-convert-block-to-thread --canonicalize | FileCheck %s
// RUN: %execute %s

// Four blocks for six tiles: each block continues with the tile four further on. The steps of a ring are counted across tiles.
// CHECK: kernel.invoke @product_kernels::@product_0(%{{.*}}, %{{.*}}) grid [4, 1, 1] block [384, 1, 1]
// CHECK-COUNT-3: thread.prefetch_map
// CHECK: %[[RING:.*]] = thread.ring_create readers 8
// CHECK: thread.warps first 8 count 1
// CHECK: %[[FIRST:.*]] = gpu.block_id  x
// CHECK: %[[BLOCKS:.*]] = gpu.grid_dim  x
// CHECK: scf.for %{{.*}} = %[[FIRST]] to %c6 step %[[BLOCKS]] iter_args(%{{.*}} = %c0, %[[BEFORE:.*]] = %c0)
// CHECK: scf.for %[[K:.*]] = %c0 to %c3
// CHECK: %[[STEP:.*]] = arith.addi %[[BEFORE]], %[[K]]
// CHECK: thread.ring_fill %[[RING]] step %[[STEP]]
// CHECK: %[[AFTER:.*]] = arith.addi %[[BEFORE]], %c3
// CHECK: scf.yield %{{.*}}, %[[AFTER]]
// CHECK: thread.warps first 0 count 8
// The second group of warps begins a step later, if the block has a tile.
// CHECK: %[[WARP:.*]] = gpu.subgroup_id
// CHECK: %[[GROUP:.*]] = arith.divui %[[WARP]], %c4
// CHECK: %[[LATER:.*]] = arith.cmpi ugt, %[[GROUP]], %c0
// CHECK: %[[WAITS:.*]] = arith.andi %[[LATER]], %{{.*}} : i1
// CHECK: scf.if %[[WAITS]] {
// CHECK: thread.ring_wait %[[RING]] step
// CHECK: scf.for %{{.*}} = %{{.*}} to %c6 step %{{.*}} iter_args(%{{.*}} = %c0, %[[BEFORE:.*]] = %c0)
// CHECK: scf.for %[[K:.*]] = %c0 to %c3
// CHECK: %[[STEP:.*]] = arith.addi %[[BEFORE]], %[[K]]
// CHECK: thread.ring_wait %[[RING]] step %[[STEP]]
// The tile is stored part by part, through memory outside of the rings, while the factors of the next one
// arrive; each group of warps stores the 64 rows that it owns.
// CHECK: %[[OUT:.*]] = thread.cast
// CHECK: %[[BUFFER:.*]] = thread.shared_alloc {{.*}} : <2x128x64xf16, swizzle = 128>
// CHECK: thread.bulk_wait 0 read
// CHECK: thread.barrier group
// CHECK: %[[PART:.*]] = thread.slice %[[OUT]] [0, 0]
// CHECK: %[[SLOT:.*]] = thread.slot %[[BUFFER]][%c0]
// CHECK: thread.store_shared %[[PART]], %[[SLOT]]
// CHECK: thread.fence async_proxy
// CHECK: thread.barrier group
// CHECK: %[[MINE:.*]] = thread.group_rows %[[SLOT]]
// CHECK: thread.tma_store %[[MINE]] to %{{.*}} group
// CHECK: thread.bulk_commit
// CHECK: thread.slice %[[OUT]] [0, 64]
// CHECK: thread.tma_store
// CHECK: thread.bulk_commit
// CHECK: scf.yield
// CHECK: thread.bulk_wait 0{{$}}
kernel.graph @product(%a: tensor<384x192xf16>, %b: tensor<192x256xf16>) -> tensor<384x256xf16> attributes {form = #kernel.form<selected>} {
  %r = kernel.launch(%a, %b) grid [m = 3, n = 2] schedule <warps = 8, stages = 2, engine = warpgroup, resident = 4> : (tensor<384x192xf16>, tensor<192x256xf16>) -> tensor<384x256xf16> {
  ^bb0(%ga: tensor<384x192xf16>, %gb: tensor<192x256xf16>):
    %s = block.loop [k = 3] {
      %x = block.load %ga [[m], [k]] : tensor<384x192xf16> -> !block.tile<128x64xf16>
      %y = block.load %gb [[k], [n]] : tensor<192x256xf16> -> !block.tile<64x128xf16>
      %p = block.matmul %x, %y : (!block.tile<128x64xf16>, !block.tile<64x128xf16>) -> !block.tile<128x128xf32>
      block.accumulate sum %p : !block.tile<128x128xf32>
    } : !block.tile<128x128xf32>
    %u = block.unary silu %s : (!block.tile<128x128xf32>) -> !block.tile<128x128xf32>
    %o = block.cast %u : (!block.tile<128x128xf32>) -> !block.tile<128x128xf16>
    block.store %o [[m], [n]] : !block.tile<128x128xf16>
  }
  kernel.return %r : tensor<384x256xf16>
}
