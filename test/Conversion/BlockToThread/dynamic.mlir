// Kernels of tensors with a dynamic number of rows take the size, and say which blocks a smaller one needs.
// RUN: mirage-opt %s --mirage-choose-engine --mirage-assign-layouts --mirage-pipeline-loops --mirage-convert-block-to-thread --split-input-file | FileCheck %s
// RUN: %execute %s

// Two rows of the launches for each unit of the size: blocks of 8 rows along the slowest axis.
// CHECK-LABEL: kernel.graph @chain
// CHECK: %[[T:.*]] = kernel.invoke @chain_kernels::@chain_0(%{{.*}}, %{{.*}}) grid [8, 1, 1] block [64, 1, 1] shared 0 dynamic <bound = 16, tensors = [0, 2]> rows [2, 8]
// Blocks along the slowest axis have columns: all are needed.
// CHECK: kernel.invoke @chain_kernels::@chain_1(%[[T]]) grid [8, 1, 1] block [64, 1, 1] shared 0 dynamic <bound = 16, tensors = [0, 1]> :
// CHECK: gpu.func @chain_0(%{{.*}}: memref<32x24xf16> {thread.unit = 48 : i64}, %{{.*}}: memref<24x32xf16>, %{{.*}}: memref<32x32xf16> {thread.unit = 64 : i64}, %{{.*}}: i32 {thread.size})
// CHECK: gpu.func @chain_1(%{{.*}}: memref<32x32xf16> {thread.unit = 64 : i64}, %{{.*}}: memref<32x32xf16> {thread.unit = 64 : i64}, %{{.*}}: i32 {thread.size})
kernel.graph @chain(%x: tensor<16x2x24xf16>, %w: tensor<24x32xf16>) -> tensor<16x64xf16>
    attributes {form = #kernel.form<selected>, dynamic = #kernel.dynamic<bound = 16, tensors = [0]>} {
  %v = kernel.reshape %x : (tensor<16x2x24xf16>) -> tensor<32x24xf16>
  %t = kernel.launch(%v, %w) grid [m = 4, n = 2] schedule <warps = 2, stages = 2> : (tensor<32x24xf16>, tensor<24x32xf16>) -> tensor<32x32xf16> {
  ^bb0(%gx: tensor<32x24xf16>, %gw: tensor<24x32xf16>):
    %s = block.loop [k = 3] {
      %a = block.load %gx [[m], [k]] : tensor<32x24xf16> -> !block.tile<8x8xf16>
      %b = block.load %gw [[k], [n]] : tensor<24x32xf16> -> !block.tile<8x16xf16>
      %p = block.matmul %a, %b : (!block.tile<8x8xf16>, !block.tile<8x16xf16>) -> !block.tile<8x16xf32>
      block.accumulate sum %p : !block.tile<8x16xf32>
    } : !block.tile<8x16xf32>
    %o = block.cast %s : (!block.tile<8x16xf32>) -> !block.tile<8x16xf16>
    block.store %o [[m], [n]] : !block.tile<8x16xf16>
  }
  %y = kernel.launch(%t) grid [n = 2, m = 4] schedule <warps = 2, stages = 1> : (tensor<32x32xf16>) -> tensor<32x32xf16> {
  ^bb0(%gt: tensor<32x32xf16>):
    %a = block.load %gt [[m], [n]] : tensor<32x32xf16> -> !block.tile<8x16xf16>
    %b = block.unary silu %a : (!block.tile<8x16xf16>) -> !block.tile<8x16xf32>
    block.store %b [[m], [n]] : !block.tile<8x16xf32>
  }
  %r = kernel.reshape %y : (tensor<32x32xf16>) -> tensor<16x64xf16>
  kernel.return %r : tensor<16x64xf16>
}

// -----

// Tensor maps cover the existing rows. Blocks are not in squares: with few rows of tiles they are numbered row by row.
// CHECK-LABEL: kernel.graph @product
// CHECK: kernel.invoke @product_kernels::@product_0(%{{.*}}, %{{.*}}) grid [4, 1, 1] block [384, 1, 1] shared 0 maps [{{.*}}] dynamic <bound = 128, tensors = [0, 2]> rows [2, 128] :
kernel.graph @product(%a: tensor<256x192xf16>, %b: tensor<192x256xf16>) -> tensor<256x256xf16>
    attributes {form = #kernel.form<selected>, dynamic = #kernel.dynamic<bound = 128, tensors = [0]>} {
  %r = kernel.launch(%a, %b) grid [m = 2, n = 2] schedule <warps = 8, stages = 2, engine = warpgroup> : (tensor<256x192xf16>, tensor<192x256xf16>) -> tensor<256x256xf16> {
  ^bb0(%ga: tensor<256x192xf16>, %gb: tensor<192x256xf16>):
    %s = block.loop [k = 3] {
      %x = block.load %ga [[m], [k]] : tensor<256x192xf16> -> !block.tile<128x64xf16>
      %y = block.load %gb [[k], [n]] : tensor<192x256xf16> -> !block.tile<64x128xf16>
      %p = block.matmul %x, %y : (!block.tile<128x64xf16>, !block.tile<64x128xf16>) -> !block.tile<128x128xf32>
      block.accumulate sum %p : !block.tile<128x128xf32>
    } : !block.tile<128x128xf32>
    %o = block.cast %s : (!block.tile<128x128xf32>) -> !block.tile<128x128xf16>
    block.store %o [[m], [n]] : !block.tile<128x128xf16>
  }
  kernel.return %r : tensor<256x256xf16>
}

// -----

// Squares of many rows of tiles have at most an eighth of the grid's height, as successive parts of it.
// CHECK-LABEL: kernel.graph @many
// CHECK: kernel.invoke @many_kernels::@many_0(%{{.*}}, %{{.*}}) grid [32, 1, 1] block [384, 1, 1] shared 0 maps [{{.*}}] dynamic <bound = 2048, tensors = [0, 2]> rows [1, 256] :
kernel.graph @many(%a: tensor<2048x192xf16>, %b: tensor<192x256xf16>) -> tensor<2048x256xf16>
    attributes {form = #kernel.form<selected>, dynamic = #kernel.dynamic<bound = 2048, tensors = [0]>} {
  %r = kernel.launch(%a, %b) grid [m = 16, n = 2] schedule <warps = 8, stages = 2, engine = warpgroup> : (tensor<2048x192xf16>, tensor<192x256xf16>) -> tensor<2048x256xf16> {
  ^bb0(%ga: tensor<2048x192xf16>, %gb: tensor<192x256xf16>):
    %s = block.loop [k = 3] {
      %x = block.load %ga [[m], [k]] : tensor<2048x192xf16> -> !block.tile<128x64xf16>
      %y = block.load %gb [[k], [n]] : tensor<192x256xf16> -> !block.tile<64x128xf16>
      %p = block.matmul %x, %y : (!block.tile<128x64xf16>, !block.tile<64x128xf16>) -> !block.tile<128x128xf32>
      block.accumulate sum %p : !block.tile<128x128xf32>
    } : !block.tile<128x128xf32>
    %o = block.cast %s : (!block.tile<128x128xf32>) -> !block.tile<128x128xf16>
    block.store %o [[m], [n]] : !block.tile<128x128xf16>
  }
  kernel.return %r : tensor<2048x256xf16>
}

// -----

// Left and right halves of rows are addresses; rows of an odd number of elements are moved one by one.
// CHECK-LABEL: kernel.graph @halves
// CHECK: gpu.func @halves_0(%{{.*}}: memref<32x16xf16, strided<[48, 1]>> {thread.align = 16 : i64, thread.unit = 48 : i64}, %{{.*}}: memref<32x5xf16> {thread.unit = 5 : i64}
kernel.graph @halves(%x: tensor<32x48xf16>, %z: tensor<32x5xf16>) -> tensor<32x16xf16>
    attributes {form = #kernel.form<selected>, dynamic = #kernel.dynamic<bound = 32, tensors = [0, 1]>} {
  %v = kernel.slice %x [0, 16] : (tensor<32x48xf16>) -> tensor<32x16xf16, #kernel.strides<[48, 1], align = 16>>
  %y = kernel.launch(%v, %z) grid [m = 4] schedule <warps = 2, stages = 1> : (tensor<32x16xf16, #kernel.strides<[48, 1], align = 16>>, tensor<32x5xf16>) -> tensor<32x16xf16> {
  ^bb0(%gv: tensor<32x16xf16, #kernel.strides<[48, 1], align = 16>>, %gz: tensor<32x5xf16>):
    %a = block.load %gv [[m], []] : tensor<32x16xf16, #kernel.strides<[48, 1], align = 16>> -> !block.tile<8x16xf16>
    %b = block.load %gz [[m], []] : tensor<32x5xf16> -> !block.tile<8x5xf16>
    %s = block.reduce sum %b dims [1] : (!block.tile<8x5xf16>) -> !block.tile<8x1xf32>
    %o = block.binary add %a, %s : (!block.tile<8x16xf16>, !block.tile<8x1xf32>) -> !block.tile<8x16xf32>
    block.store %o [[m], []] : !block.tile<8x16xf32>
  }
  kernel.return %y : tensor<32x16xf16>
}
