// RUN: mirage-opt %s --mirage-assign-layouts | FileCheck %s
// RUN: %execute %s

// CHECK: #[[SHARES:[a-z0-9]+]] = #thread.layout<{{.*}} warp = {{\[\[}}2, 0], [4, 0]]>
// CHECK: #[[SIDE:[a-z0-9]+]] = #thread.layout<{{.*}} lane = {{\[\[}}0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], {{.*}}>
// CHECK: #[[PAIRS:[a-z0-9]+]] = #thread.layout<reg = {{\[\[}}0, 1], {{.*}} lane = {{\[\[}}0, 2], [0, 4], [0, 8], [0, 16], [0, 32]], {{.*}}>
// CHECK: #[[ROWS:[a-z0-9]+]] = #thread.layout<{{.*}} lane = {{\[\[}}0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], {{.*}}>
// CHECK: #[[SCAN:[a-z0-9]+]] = #thread.layout<{{.*}} warp = {{\[\[}}0, 512], [0, 1024], [0, 2048]]>

// The right operand streams through shared memory; warps share the columns.
// CHECK-LABEL: kernel.graph @matmul
// CHECK: block.load %{{.*}} -> !block.tile<64x64xf16, !thread.shared<64x64xf16, swizzle = 128>>
// CHECK: block.load %{{.*}} -> !block.tile<64x32xf16, !thread.shared<64x32xf16, swizzle = 64>>
// CHECK: block.matmul %{{.*}} {warps = array<i64: {{[0-9]+, [0-9]+, [0-9]+}}>}
// CHECK-SAME: !block.tile<64x32xf32, !thread.fragment<64x32xf32, #[[ACC:[a-z0-9]+]]
// CHECK-NOT: convert_layout
kernel.graph @matmul(%a: tensor<64x256xf16>, %b: tensor<256x32xf16>) -> tensor<64x32xf16> {
  %y = kernel.launch(%a, %b) grid [] schedule <warps = 4, stages = 2> : (tensor<64x256xf16>, tensor<256x32xf16>) -> tensor<64x32xf16> {
  ^bb0(%ga: tensor<64x256xf16>, %gb: tensor<256x32xf16>):
    %c = block.loop [k = 4] {
      %ta = block.load %ga [[], [k]] : tensor<64x256xf16> -> !block.tile<64x64xf16>
      %tb = block.load %gb [[k], []] : tensor<256x32xf16> -> !block.tile<64x32xf16>
      %p = block.matmul %ta, %tb : (!block.tile<64x64xf16>, !block.tile<64x32xf16>) -> !block.tile<64x32xf32>
      block.accumulate sum %p : !block.tile<64x32xf32>
    } : !block.tile<64x32xf32>
    block.store %c [[], []] : !block.tile<64x32xf32>
  }
  kernel.return %y : tensor<64x32xf16>
}

// Few rows: the product is computed transposed, rows padded to 8, and the warps
// share K. Their sums are added after the loop, two rows by each warp.
// CHECK-LABEL: kernel.graph @few_rows
// CHECK: %[[P:.*]] = block.matmul %{{.*}} {swapped, warps = array<i64: 1, {{[0-9]}}, {{[24]}}>}
// CHECK-SAME: !thread.fragment<8x32xf32, #{{.*}}, partial>
// CHECK: block.accumulate sum %[[P]]
// CHECK: block.convert_layout {{.*}}, partial>>) -> !block.tile<2x32xf32, !thread.fragment<8x32xf32, #[[SHARES]]>>
kernel.graph @few_rows(%a: tensor<2x1024xf16>, %b: tensor<1024x32xf16>) -> tensor<2x32xf16> {
  %y = kernel.launch(%a, %b) grid [] schedule <warps = 4, stages = 2> : (tensor<2x1024xf16>, tensor<1024x32xf16>) -> tensor<2x32xf16> {
  ^bb0(%ga: tensor<2x1024xf16>, %gb: tensor<1024x32xf16>):
    %c = block.loop [k = 16] {
      %ta = block.load %ga [[], [k]] : tensor<2x1024xf16> -> !block.tile<2x64xf16>
      %tb = block.load %gb [[k], []] : tensor<1024x32xf16> -> !block.tile<64x32xf16>
      %p = block.matmul %ta, %tb : (!block.tile<2x64xf16>, !block.tile<64x32xf16>) -> !block.tile<2x32xf32>
      block.accumulate sum %p : !block.tile<2x32xf32>
    } : !block.tile<2x32xf32>
    block.store %c [[], []] : !block.tile<2x32xf32>
  }
  kernel.return %y : tensor<2x32xf16>
}

// Attention: the probabilities go from one product to the next in registers.
// CHECK-LABEL: kernel.graph @attention
// CHECK: block.loop
// CHECK: %[[S:.*]] = block.matmul {{.*}} {warps = array<i64: 4, 1, 1>}
// CHECK-NOT: convert_layout
// CHECK: %[[H:.*]] = block.cast
// CHECK-NEXT: block.matmul %[[H]], %{{.*}} {warps = array<i64: 4, 1, 1>}
// CHECK-NOT: convert_layout
// CHECK: block.store
kernel.graph @attention(%q: tensor<64x64xf16>, %k: tensor<64x256xf16>, %v: tensor<256x64xf16>) -> (tensor<64x64xf32>, tensor<64x1xf32>) {
  %o, %l = kernel.launch(%q, %k, %v) grid [] schedule <warps = 4, stages = 2> : (tensor<64x64xf16>, tensor<64x256xf16>, tensor<256x64xf16>) -> (tensor<64x64xf32>, tensor<64x1xf32>) {
  ^bb0(%gq: tensor<64x64xf16>, %gk: tensor<64x256xf16>, %gv: tensor<256x64xf16>):
    %tq = block.load %gq [[], []] : tensor<64x64xf16> -> !block.tile<64x64xf16>
    %acc, %sum = block.loop [t = 4] {
      %tk = block.load %gk [[], [t]] : tensor<64x256xf16> -> !block.tile<64x64xf16>
      %tv = block.load %gv [[t], []] : tensor<256x64xf16> -> !block.tile<64x64xf16>
      %s = block.matmul %tq, %tk : (!block.tile<64x64xf16>, !block.tile<64x64xf16>) -> !block.tile<64x64xf32>
      %r = block.reduce max %s dims [1] : (!block.tile<64x64xf32>) -> !block.tile<64x1xf32>
      %m = block.running_max %r : !block.tile<64x1xf32>
      %d = block.binary sub %s, %m : (!block.tile<64x64xf32>, !block.tile<64x1xf32>) -> !block.tile<64x64xf32>
      %e = block.unary exp %d : (!block.tile<64x64xf32>) -> !block.tile<64x64xf32>
      %n = block.reduce sum %e dims [1] : (!block.tile<64x64xf32>) -> !block.tile<64x1xf32>
      %h = block.cast %e : (!block.tile<64x64xf32>) -> !block.tile<64x64xf16>
      %p = block.matmul %h, %tv : (!block.tile<64x64xf16>, !block.tile<64x64xf16>) -> !block.tile<64x64xf32>
      block.accumulate sum %p rescale %m, sum %n rescale %m : !block.tile<64x64xf32>, !block.tile<64x1xf32> rescale : !block.tile<64x1xf32>, !block.tile<64x1xf32>
    } : !block.tile<64x64xf32>, !block.tile<64x1xf32>
    block.store %acc [[], []], %sum [[], []] : !block.tile<64x64xf32>, !block.tile<64x1xf32>
  }
  kernel.return %o, %l : tensor<64x64xf32>, tensor<64x1xf32>
}

// Rows that start at odd elements are loaded and stored element by element: the
// lanes of a warp take neighbours, which are in one sector. Rows of an even
// number are read in vectors, of two elements here.
// CHECK-LABEL: kernel.graph @odd_rows
// CHECK: block.load %{{.*}} -> !block.tile<4x93xf16, !thread.fragment<4x128xf16, #[[SIDE]]>>
kernel.graph @odd_rows(%a: tensor<8x93xf16>) -> tensor<8x93xf16> {
  %y = kernel.launch(%a) grid [m = 2] schedule <warps = 4, stages = 1> : (tensor<8x93xf16>) -> tensor<8x93xf16> {
  ^bb0(%ga: tensor<8x93xf16>):
    %x = block.load %ga [[m], []] : tensor<8x93xf16> -> !block.tile<4x93xf16>
    block.store %x [[m], []] : !block.tile<4x93xf16>
  }
  kernel.return %y : tensor<8x93xf16>
}

// CHECK-LABEL: kernel.graph @even_rows
// CHECK: block.load %{{.*}} -> !block.tile<4x94xf16, !thread.fragment<4x128xf16, #[[PAIRS]]>>
kernel.graph @even_rows(%a: tensor<8x94xf16>) -> tensor<8x94xf16> {
  %y = kernel.launch(%a) grid [m = 2] schedule <warps = 4, stages = 1> : (tensor<8x94xf16>) -> tensor<8x94xf16> {
  ^bb0(%ga: tensor<8x94xf16>):
    %x = block.load %ga [[m], []] : tensor<8x94xf16> -> !block.tile<4x94xf16>
    block.store %x [[m], []] : !block.tile<4x94xf16>
  }
  kernel.return %y : tensor<8x94xf16>
}

// The results of a loop are also stored with neighbouring lanes side by side: they go through shared memory
// once, instead of one element of eight rows at a time.
// CHECK-LABEL: kernel.graph @odd_results
// CHECK: %[[SUM:.*]] = block.loop
// CHECK: %[[SIDEWAYS:.*]] = block.convert_layout %[[SUM]] : {{.*}} -> !block.tile<128x128xf32, !thread.fragment<128x128xf32, #[[ROWS]]>>
// CHECK: block.store %[[SIDEWAYS]]
kernel.graph @odd_results(%a: tensor<128x64xf16>, %b: tensor<64x136xf16>) -> tensor<128x131xf16> {
  %y = kernel.launch(%a, %b) grid [n = 2] schedule <warps = 4, stages = 2> : (tensor<128x64xf16>, tensor<64x136xf16>) -> tensor<128x131xf16> {
  ^bb0(%ga: tensor<128x64xf16>, %gb: tensor<64x136xf16>):
    %c = block.loop [k = 4] {
      %ta = block.load %ga [[], [k]] : tensor<128x64xf16> -> !block.tile<128x16xf16>
      %tb = block.load %gb [[k], [n]] : tensor<64x136xf16> -> !block.tile<16x128xf16>
      %p = block.matmul %ta, %tb : (!block.tile<128x16xf16>, !block.tile<16x128xf16>) -> !block.tile<128x128xf32>
      block.accumulate sum %p : !block.tile<128x128xf32>
    } : !block.tile<128x128xf32>
    block.store %c [[], [n]] : !block.tile<128x128xf32>
  }
  kernel.return %y : tensor<128x131xf16>
}

// Running sums along a row: each warp has a separate part of the row, and one total to
// exchange.
// CHECK-LABEL: kernel.graph @scan
// CHECK: block.load %{{.*}} -> !block.tile<1x4096xi64, !thread.fragment<1x4096xi64, #[[SCAN]]>>
// CHECK: block.cumulate
// CHECK-NOT: convert_layout
kernel.graph @scan(%a: tensor<16x4096xi64>) -> tensor<16x4096xi64> {
  %y = kernel.launch(%a) grid [m = 16] schedule <warps = 8, stages = 1> : (tensor<16x4096xi64>) -> tensor<16x4096xi64> {
  ^bb0(%ga: tensor<16x4096xi64>):
    %t = block.load %ga [[m], []] : tensor<16x4096xi64> -> !block.tile<1x4096xi64>
    %c = block.cumulate sum %t dim 1 : (!block.tile<1x4096xi64>) -> !block.tile<1x4096xi64>
    block.store %c [[m], []] : !block.tile<1x4096xi64>
  }
  kernel.return %y : tensor<16x4096xi64>
}
