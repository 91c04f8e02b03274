// RUN: mirage-opt %s --mirage-flatten-tiles --mirage-choose-engine --mirage-assign-layouts --mirage-pipeline-loops --mirage-convert-block-to-thread --canonicalize | FileCheck %s
// RUN: %execute %s

// Rows of tokens by index, with the matrix of each block's expert. All four warps of the role that copies do: a thread
// starts the copy of the expert's matrix, whose index is read once, all threads copy rows.
// CHECK: kernel.invoke @experts_kernels::@experts_0({{.*}}) grid [8, 1, 1] block [256, 1, 1]
// CHECK-SAME: maps [#kernel.tensor_map<parameter = 2, box = [1, 64, 64], swizzle = 128>, #kernel.tensor_map<parameter = 4, box = [1, 64, 64], swizzle = 128>]
// CHECK: gpu.func @experts_0(%[[X:.*]]: memref<9x192xf16>, %[[ROWS:.*]]: memref<4x64xi64>, %[[W:.*]]: memref<3x192x128xf16>, %[[OWNER:.*]]: memref<1x4xi64>
// CHECK: %[[RING:.*]] = thread.ring_create readers 4 writers 4 copies : <2, <64x64xf16, swizzle = 128>, <64x64xf16, swizzle = 128>>
// CHECK: thread.warps first 4 count 4 barrier 2 {
// CHECK: %[[INDEX:.*]] = memref.load %[[OWNER]]
// CHECK: %[[EXISTS:.*]] = arith.cmpi ult, %[[INDEX]], %c3_i64
// CHECK: %[[ROW:.*]] = arith.select %[[EXISTS]], %[[INDEX]], %c0_i64
// CHECK: %[[EXPERT:.*]] = arith.index_cast %[[ROW]]
// CHECK: scf.for %[[K:.*]] =
// CHECK: %[[TILES:.*]]:2 = thread.ring_acquire %[[RING]] step %[[K]]
// CHECK: scf.if %[[EXISTS]] {
// CHECK: thread.ring_fill %[[RING]] step %[[K]] into [1] from %{{.*}} at %[[EXPERT]], %{{.*}}, %{{.*}} :
// CHECK: } else {
// A missing expert is NaN.
// CHECK: thread.ring_fill %[[RING]] step %[[K]] into [] :
// CHECK: thread.gather_async %[[W]], %[[OWNER]]{{.*}} to %[[TILES]]#1
// CHECK: }
// CHECK: thread.gather_async %[[X]], %[[ROWS]]{{.*}} to %[[TILES]]#0
// CHECK: thread.ring_publish %[[RING]] step %[[K]]
// CHECK: thread.copy_wait 0
// CHECK: thread.warps first 0 count 4 barrier 1 {
// CHECK: %[[READ:.*]]:2 = thread.ring_wait %[[RING]]
// CHECK: thread.wgmma %[[READ]]#0, %[[READ]]#1
kernel.graph @experts(%x: tensor<9x192xf16>, %rows: tensor<4x64xi64>, %w: tensor<3x192x128xf16>, %owner: tensor<4xi64>) -> tensor<4x64x128xf16> attributes {form = #kernel.form<selected>} {
  %r = kernel.launch(%x, %rows, %w, %owner) grid [b = 4, n = 2] schedule <warps = 4, stages = 2, engine = warpgroup> : (tensor<9x192xf16>, tensor<4x64xi64>, tensor<3x192x128xf16>, tensor<4xi64>) -> tensor<4x64x128xf16> {
  ^bb0(%gx: tensor<9x192xf16>, %gr: tensor<4x64xi64>, %gw: tensor<3x192x128xf16>, %go: tensor<4xi64>):
    %s = block.loop [k = 3] {
      %a = block.gather %gx, %gr [[b], [], [k]] : tensor<9x192xf16>, tensor<4x64xi64> -> !block.tile<1x64x64xf16>
      %y = block.gather %gw, %go [[b], [k], [n]] : tensor<3x192x128xf16>, tensor<4xi64> -> !block.tile<1x64x64xf16>
      %p = block.matmul %a, %y : (!block.tile<1x64x64xf16>, !block.tile<1x64x64xf16>) -> !block.tile<1x64x64xf32>
      block.accumulate sum %p : !block.tile<1x64x64xf32>
    } : !block.tile<1x64x64xf32>
    %o = block.cast %s : (!block.tile<1x64x64xf32>) -> !block.tile<1x64x64xf16>
    block.store %o [[b], [], [n]] : !block.tile<1x64x64xf16>
  }
  kernel.return %r : tensor<4x64x128xf16>
}
