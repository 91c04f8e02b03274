// RUN: mirage-opt %s --mirage-convert-block-to-thread --canonicalize --split-input-file | FileCheck %s
// RUN: %execute %s

// A dimension that is taken whole joins the previous one. The tile's columns are padded to a power of
// two.
// CHECK-LABEL: kernel.graph @slice
// CHECK-NEXT: kernel.invoke @slice_kernels::@slice_0(%{{.*}}) grid [1, 1, 1] block [128, 1, 1] shared 0
// CHECK: gpu.func @slice_0(%[[X:.*]]: memref<4x1152xf16>, %[[Y:.*]]: memref<2x640xf16>)
// CHECK: %[[T:.*]] = thread.load_global %[[X]]{{.*}} dims [0, 1] in_bounds [true, true] extents [2, 640] :
// CHECK: thread.store_global %[[T]], %[[Y]]{{.*}} dims [0, 1] in_bounds [true, true] extents [2, 640] :
kernel.graph @slice(%x: tensor<4x9x8x16xf16>) -> tensor<2x5x8x16xf16> {
  %y = kernel.slice %x [1, 3, 0, 0] : (tensor<4x9x8x16xf16>) -> tensor<2x5x8x16xf16>
  kernel.return %y : tensor<2x5x8x16xf16>
}

// -----

// A block in one piece that starts at a multiple of 16 bytes is an address, and so is a block of it; an
// output is not, nor is a block that starts elsewhere.
// CHECK-LABEL: kernel.graph @addresses
// CHECK-NEXT: %[[A:.*]] = kernel.slice %{{.*}} [1, 0, 0] : (tensor<3x4x8xf16>) -> tensor<1x4x8xf16>
// CHECK-NEXT: %[[B:.*]] = kernel.slice %[[A]] [0, 2, 0] : (tensor<1x4x8xf16>) -> tensor<1x2x8xf16>
// CHECK-NEXT: %[[C:.*]] = kernel.invoke @addresses_kernels::@addresses_0(%[[B]])
// CHECK-NEXT: %[[D:.*]] = kernel.invoke @addresses_kernels::@addresses_1(%{{.*}})
// CHECK-NEXT: kernel.return %[[C]], %[[D]]
kernel.graph @addresses(%x: tensor<3x4x8xf16>) -> (tensor<1x2x4xf16>, tensor<1x1x4xf16>) {
  %a = kernel.slice %x [1, 0, 0] : (tensor<3x4x8xf16>) -> tensor<1x4x8xf16>
  %b = kernel.slice %a [0, 2, 0] : (tensor<1x4x8xf16>) -> tensor<1x2x8xf16>
  %c = kernel.slice %b [0, 0, 4] : (tensor<1x2x8xf16>) -> tensor<1x2x4xf16>
  %d = kernel.slice %x [2, 3, 4] : (tensor<3x4x8xf16>) -> tensor<1x1x4xf16>
  kernel.return %c, %d : tensor<1x2x4xf16>, tensor<1x1x4xf16>
}

// -----

// Names of kernels are identifiers.
// CHECK-LABEL: kernel.graph @"2 rows-of x.1"
// CHECK-NEXT: kernel.invoke @_2_rows_of_x_1_kernels::@_2_rows_of_x_1_0(
kernel.graph @"2 rows-of x.1"(%x: tensor<4x8xf16>) -> tensor<2x8xf16> {
  %y = kernel.slice %x [1, 0] : (tensor<4x8xf16>) -> tensor<2x8xf16>
  kernel.return %y : tensor<2x8xf16>
}

// -----

// One kernel for all operands: the block's number selects the operand. No tile reaches into the columns of
// the next operand.
// CHECK-LABEL: kernel.graph @concat
// CHECK: grid [4, 1, 1]
// CHECK: gpu.func @concat_0(%[[A:.*]]: memref<4x1030xf16>, %[[B:.*]]: memref<4x24xf16>, %[[Y:.*]]: memref<4x1054xf16>)
// CHECK: scf.if
// CHECK: thread.load_global %[[A]]
// CHECK: } else {
// CHECK: scf.if
// CHECK: thread.load_global %[[A]]{{.*}} extents [4, 6]
// CHECK: thread.store_global %{{.*}}, %[[Y]]{{.*}} extents [4, 6]
// CHECK: } else {
// CHECK: thread.load_global %[[B]]{{.*}} extents [4, 24]
kernel.graph @concat(%a: tensor<4x103x10xf16>, %b: tensor<4x12x2xf16>) -> tensor<4x527x2xf16> {
  %0 = kernel.reshape %a : (tensor<4x103x10xf16>) -> tensor<4x515x2xf16>
  %y = kernel.concat %0, %b dim 1 : (tensor<4x515x2xf16>, tensor<4x12x2xf16>) -> tensor<4x527x2xf16>
  kernel.return %y : tensor<4x527x2xf16>
}

// -----

// Where columns of a long tile have conditions, rows have none.
// CHECK-LABEL: kernel.graph @conditions
// CHECK: gpu.func @conditions_0(%[[A:.*]]: memref<3x1024xf32>, %[[B:.*]]: memref<3x907xf32>, %[[Y:.*]]: memref<3x1931xf32>)
// CHECK: thread.load_global %[[A]]{{.*}} in_bounds [false, true] :
// CHECK: } else {
// CHECK: thread.load_global %[[B]]{{.*}} in_bounds [true, true] extents [1, 907]
kernel.graph @conditions(%a: tensor<3x1024xf32>, %b: tensor<3x907xf32>) -> tensor<3x1931xf32> {
  %0 = kernel.concat %a, %b dim 1 : (tensor<3x1024xf32>, tensor<3x907xf32>) -> tensor<3x1931xf32>
  kernel.return %0 : tensor<3x1931xf32>
}
