// RUN: mirage-opt %s --mirage-assign-layouts --mirage-pipeline-loops --mirage-convert-block-to-thread --canonicalize | FileCheck %s
// RUN: %execute %s

// CHECK: kernel.graph @matmul({{.*}}) -> tensor<64x32xf16> attributes {form = #kernel.form<thread>}
// CHECK-NEXT: kernel.invoke @matmul_kernels::@matmul_0(%{{.*}}, %{{.*}}) grid [2, 1, 1] block [128, 1, 1] shared 0
// CHECK: gpu.module @matmul_kernels
// CHECK: gpu.func @matmul_0(%[[A:.*]]: memref<64x256xf16>, %[[B:.*]]: memref<256x32xf16>, %[[Y:.*]]: memref<64x32xf16>) kernel attributes {known_block_size = array<i32: 128, 1, 1>}
// Two of the three stages are filled ahead, a group of copies each.
// CHECK: thread.copy_async %[[A]]
// CHECK: thread.copy_async %[[B]]
// CHECK: thread.copy_commit
// CHECK: thread.copy_async
// CHECK: thread.copy_async
// CHECK: thread.copy_commit
// CHECK: scf.for %[[K:[a-z0-9]+]] =
// The group of this step has landed when one is left; the barrier makes it
// visible and frees the slot of the previous step.
// CHECK-NEXT: thread.copy_wait 1
// CHECK-NEXT: thread.barrier
// CHECK: %[[NEXT:.*]] = arith.addi %[[K]], %c2
// CHECK-NEXT: %[[EXISTS:.*]] = arith.cmpi ult, %[[NEXT]], %c4
// CHECK: thread.copy_async %[[A]]{{.*}} when %[[EXISTS]]
// CHECK: thread.copy_async %[[B]]{{.*}} when %[[EXISTS]]
// CHECK: thread.copy_commit
// The product is added to the accumulator that the loop carries.
// CHECK: thread.mma
// CHECK-NOT: thread.binary
// CHECK: scf.yield
// CHECK: thread.store_global
// CHECK: gpu.return
kernel.graph @matmul(%a: tensor<64x256xf16>, %b: tensor<256x32xf16>) -> tensor<64x32xf16> attributes {form = #kernel.form<scheduled>} {
  %y = kernel.launch(%a, %b) grid [m = 2] schedule <warps = 4, stages = 3> : (tensor<64x256xf16>, tensor<256x32xf16>) -> tensor<64x32xf16> {
  ^bb0(%ga: tensor<64x256xf16>, %gb: tensor<256x32xf16>):
    %c = block.loop [k = 4] {
      %ta = block.load %ga [[m], [k]] : tensor<64x256xf16> -> !block.tile<32x64xf16>
      %tb = block.load %gb [[k], []] : tensor<256x32xf16> -> !block.tile<64x32xf16>
      %p = block.matmul %ta, %tb : (!block.tile<32x64xf16>, !block.tile<64x32xf16>) -> !block.tile<32x32xf32>
      block.accumulate sum %p : !block.tile<32x32xf32>
    } : !block.tile<32x32xf32>
    block.store %c [[m], []] : !block.tile<32x32xf32>
  }
  kernel.return %y : tensor<64x32xf16>
}

// With a slot for each step all copies start before the loop, and no slot is filled again.
// CHECK-LABEL: gpu.func @slots_for_all_0
// CHECK-COUNT-3: thread.copy_commit
// CHECK: scf.for
// CHECK-NEXT: thread.copy_wait 2
// CHECK-NEXT: thread.barrier
// CHECK-NEXT: thread.copy_commit
// CHECK-NOT: thread.copy_async
// CHECK: thread.mma
// CHECK: gpu.return
kernel.graph @slots_for_all(%a: tensor<64x192xf16>, %b: tensor<192x32xf16>) -> tensor<64x32xf16> attributes {form = #kernel.form<scheduled>} {
  %y = kernel.launch(%a, %b) grid [m = 2] schedule <warps = 4, stages = 3> : (tensor<64x192xf16>, tensor<192x32xf16>) -> tensor<64x32xf16> {
  ^bb0(%ga: tensor<64x192xf16>, %gb: tensor<192x32xf16>):
    %c = block.loop [k = 3] {
      %ta = block.load %ga [[m], [k]] : tensor<64x192xf16> -> !block.tile<32x64xf16>
      %tb = block.load %gb [[k], []] : tensor<192x32xf16> -> !block.tile<64x32xf16>
      %p = block.matmul %ta, %tb : (!block.tile<32x64xf16>, !block.tile<64x32xf16>) -> !block.tile<32x32xf32>
      block.accumulate sum %p : !block.tile<32x32xf32>
    } : !block.tile<32x32xf32>
    block.store %c [[m], []] : !block.tile<32x32xf32>
  }
  kernel.return %y : tensor<64x32xf16>
}
