// RUN: mirage-opt %s --mirage-assign-layouts | FileCheck %s
// RUN: %execute %s

// A tensor is added to sums of products in their layout, so that no f32 tile goes through shared memory in
// addition to the rings, and it is loaded after the loop, which needs the registers.
// CHECK-LABEL: kernel.graph @residual
// CHECK: block.loop
// CHECK: block.accumulate
// CHECK: block.load %arg5
// CHECK-NOT: block.convert_layout
// CHECK: block.binary add
// CHECK: block.cast
// CHECK-NOT: block.convert_layout
// CHECK: block.store
kernel.graph @residual(%a: tensor<128x128xf16>, %b: tensor<128x256xf16>, %d: tensor<128x256xf16>) -> tensor<128x256xf16> attributes {form = #kernel.form<selected>} {
  %r = kernel.launch(%a, %b, %d) grid [m = 2, n = 2] schedule <warps = 4, stages = 2, engine = warpgroup, resident = 2> : (tensor<128x128xf16>, tensor<128x256xf16>, tensor<128x256xf16>) -> tensor<128x256xf16> {
  ^bb0(%ga: tensor<128x128xf16>, %gb: tensor<128x256xf16>, %gd: tensor<128x256xf16>):
    %t = block.load %gd [[m], [n]] : tensor<128x256xf16> -> !block.tile<64x128xf16>
    %s = block.loop [k = 2] {
      %x = block.load %ga [[m], [k]] : tensor<128x128xf16> -> !block.tile<64x64xf16>
      %y = block.load %gb [[k], [n]] : tensor<128x256xf16> -> !block.tile<64x128xf16>
      %p = block.matmul %x, %y : (!block.tile<64x64xf16>, !block.tile<64x128xf16>) -> !block.tile<64x128xf32>
      block.accumulate sum %p : !block.tile<64x128xf32>
    } : !block.tile<64x128xf32>
    %z = block.binary add %s, %t : (!block.tile<64x128xf32>, !block.tile<64x128xf16>) -> !block.tile<64x128xf32>
    block.store %z [[m], [n]] : !block.tile<64x128xf32>
  }
  kernel.return %r : tensor<128x256xf16>
}

// Rows that no copy of the tensor memory accelerator can store are made neighbours of one warp in
// the result's type.
// CHECK-LABEL: kernel.graph @odd
// CHECK: %[[NARROW:.*]] = block.cast %{{.*}} -> !block.tile<64x128xf16
// CHECK: %[[ROWS:.*]] = block.convert_layout %[[NARROW]]
// CHECK: block.store %[[ROWS]]
kernel.graph @odd(%a: tensor<64x128xf16>, %b: tensor<129x128xf16>, %c: tensor<1x129xf32>) -> tensor<64x129xf16> attributes {form = #kernel.form<selected>} {
  %r = kernel.launch(%a, %b, %c) grid [n = 2] schedule <warps = 4, stages = 2, engine = warpgroup> : (tensor<64x128xf16>, tensor<129x128xf16>, tensor<1x129xf32>) -> tensor<64x129xf16> {
  ^bb0(%ga: tensor<64x128xf16>, %gb: tensor<129x128xf16>, %gc: tensor<1x129xf32>):
    %s = block.loop [k = 2] {
      %x = block.load %ga [[], [k]] : tensor<64x128xf16> -> !block.tile<64x64xf16>
      %w = block.load %gb [[n], [k]] : tensor<129x128xf16> -> !block.tile<128x64xf16>
      %y = block.transpose %w [1, 0] : (!block.tile<128x64xf16>) -> !block.tile<64x128xf16>
      %p = block.matmul %x, %y : (!block.tile<64x64xf16>, !block.tile<64x128xf16>) -> !block.tile<64x128xf32>
      block.accumulate sum %p : !block.tile<64x128xf32>
    } : !block.tile<64x128xf32>
    %v = block.load %gc [[], [n]] : tensor<1x129xf32> -> !block.tile<1x128xf32>
    %z = block.binary add %s, %v : (!block.tile<64x128xf32>, !block.tile<1x128xf32>) -> !block.tile<64x128xf32>
    block.store %z [[], [n]] : !block.tile<64x128xf32>
  }
  kernel.return %r : tensor<64x129xf16>
}

// A factor that is computed once is written to shared memory before the first loop that reads it,
// one that steps make comes from registers.
// CHECK-LABEL: kernel.graph @factors
// CHECK: %[[CAST:.*]] = block.cast
// CHECK: %[[KEPT:.*]] = block.convert_layout %[[CAST]] : {{.*}} -> !block.tile<64x64xf16, !thread.shared<64x64xf16, swizzle = 128>>
// CHECK: block.loop
// CHECK: block.matmul %[[KEPT]]
// CHECK: %[[MADE:.*]] = block.cast
// CHECK-NOT: block.convert_layout
// CHECK: block.matmul %[[MADE]]
// CHECK: block.loop
// CHECK: block.matmul %[[KEPT]]
kernel.graph @factors(%x: tensor<64x64xf16>, %u: tensor<64x128xf16>, %v: tensor<128x64xf16>) -> (tensor<64x64xf32>, tensor<64x64xf32>) attributes {form = #kernel.form<selected>} {
  %r:2 = kernel.launch(%x, %u, %v) grid [] schedule <warps = 4, stages = 2, engine = warpgroup> : (tensor<64x64xf16>, tensor<64x128xf16>, tensor<128x64xf16>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  ^bb0(%gx: tensor<64x64xf16>, %gu: tensor<64x128xf16>, %gv: tensor<128x64xf16>):
    %a = block.load %gx [[], []] : tensor<64x64xf16> -> !block.tile<64x64xf16>
    %b = block.unary silu %a : (!block.tile<64x64xf16>) -> !block.tile<64x64xf32>
    %c = block.cast %b : (!block.tile<64x64xf32>) -> !block.tile<64x64xf16>
    %s = block.loop [j = 2] {
      %y = block.load %gu [[], [j]] : tensor<64x128xf16> -> !block.tile<64x64xf16>
      %p = block.matmul %c, %y : (!block.tile<64x64xf16>, !block.tile<64x64xf16>) -> !block.tile<64x64xf32>
      %h = block.cast %p : (!block.tile<64x64xf32>) -> !block.tile<64x64xf16>
      %z = block.load %gv [[j], []] : tensor<128x64xf16> -> !block.tile<64x64xf16>
      %q = block.matmul %h, %z : (!block.tile<64x64xf16>, !block.tile<64x64xf16>) -> !block.tile<64x64xf32>
      block.accumulate sum %q : !block.tile<64x64xf32>
    } : !block.tile<64x64xf32>
    %t = block.loop [i = 2] {
      %y = block.load %gu [[], [i]] : tensor<64x128xf16> -> !block.tile<64x64xf16>
      %p = block.matmul %c, %y : (!block.tile<64x64xf16>, !block.tile<64x64xf16>) -> !block.tile<64x64xf32>
      block.accumulate sum %p : !block.tile<64x64xf32>
    } : !block.tile<64x64xf32>
    block.store %s [[], []], %t [[], []] : !block.tile<64x64xf32>, !block.tile<64x64xf32>
  }
  kernel.return %r#0, %r#1 : tensor<64x64xf32>, tensor<64x64xf32>
}
