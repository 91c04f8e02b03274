// Tiles of 8-bit elements that run ahead of a loop are held as bytes: threads make wider numbers when they read them.
// RUN: mirage-opt %s --mirage-assign-layouts --mirage-pipeline-loops | FileCheck %s
// RUN: %execute %s

// A factor of integers, in the type of the other one.
// CHECK-LABEL: kernel.graph @integers
// CHECK: block.load {{.*}} : tensor<32x256xi8> -> !block.tile<32x64xf32, !thread.shared<4x32x64xi8
// CHECK: block.convert_layout {{.*}}!thread.shared<32x64xi8{{.*}} -> !block.tile<64x32xf32, !thread.fragment
kernel.graph @integers(%x: tensor<16x256xf16>, %w: tensor<32x256xi8>) -> tensor<16x32xf16> {
  %y = kernel.launch(%x, %w) grid [] schedule <warps = 2, stages = 4> : (tensor<16x256xf16>, tensor<32x256xi8>) -> tensor<16x32xf16> {
  ^bb0(%p: tensor<16x256xf16>, %q: tensor<32x256xi8>):
    %s = block.loop [k = 4] {
      %a = block.load %p [[], [k]] : tensor<16x256xf16> -> !block.tile<16x64xf16>
      %b = block.load %q [[], [k]] : tensor<32x256xi8> -> !block.tile<32x64xf32>
      %t = block.transpose %b [1, 0] : (!block.tile<32x64xf32>) -> !block.tile<64x32xf32>
      %c = block.cast %t : (!block.tile<64x32xf32>) -> !block.tile<64x32xf16>
      %m = block.matmul %a, %c : (!block.tile<16x64xf16>, !block.tile<64x32xf16>) -> !block.tile<16x32xf32>
      block.accumulate sum %m : !block.tile<16x32xf32>
    } : !block.tile<16x32xf32>
    block.store %s [[], []] : !block.tile<16x32xf32>
  }
  kernel.return %y : tensor<16x32xf16>
}

// A factor of floats, which a product multiplies as f16 (warpgroups multiply its bytes).
// CHECK-LABEL: kernel.graph @floats
// CHECK: block.load {{.*}} : tensor<256x32xf8E4M3FN> -> !block.tile<64x32xf16, !thread.shared<3x64x32xf8E4M3FN
// CHECK: block.convert_layout
kernel.graph @floats(%x: tensor<16x256xf16>, %w: tensor<256x32xf8E4M3FN>) -> tensor<16x32xf16> {
  %y = kernel.launch(%x, %w) grid [] schedule <warps = 2, stages = 3> : (tensor<16x256xf16>, tensor<256x32xf8E4M3FN>) -> tensor<16x32xf16> {
  ^bb0(%p: tensor<16x256xf16>, %q: tensor<256x32xf8E4M3FN>):
    %s = block.loop [k = 4] {
      %a = block.load %p [[], [k]] : tensor<16x256xf16> -> !block.tile<16x64xf16>
      %b = block.load %q [[k], []] : tensor<256x32xf8E4M3FN> -> !block.tile<64x32xf16>
      %m = block.matmul %a, %b : (!block.tile<16x64xf16>, !block.tile<64x32xf16>) -> !block.tile<16x32xf32>
      block.accumulate sum %m : !block.tile<16x32xf32>
    } : !block.tile<16x32xf32>
    block.store %s [[], []] : !block.tile<16x32xf32>
  }
  kernel.return %y : tensor<16x32xf16>
}

// Ordinary arithmetic; and bytes whose rows are no multiple of a copy's four, which go to registers.
// CHECK-LABEL: kernel.graph @sums
// CHECK: block.load {{.*}} : tensor<64x512xi8> -> !block.tile<64x128xf32, !thread.shared<2x64x128xi8
// CHECK: block.load {{.*}} : tensor<64x510xi8> -> !block.tile<64x255xf32, !thread.fragment
kernel.graph @sums(%x: tensor<64x512xi8>, %z: tensor<64x510xi8>) -> (tensor<64x1xf32>, tensor<64x1xf32>) {
  %y = kernel.launch(%x) grid [] schedule <warps = 4, stages = 2> : (tensor<64x512xi8>) -> tensor<64x1xf32> {
  ^bb0(%p: tensor<64x512xi8>):
    %s = block.loop [k = 4] {
      %a = block.load %p [[], [k]] : tensor<64x512xi8> -> !block.tile<64x128xf32>
      %m = block.reduce sum %a dims [1] : (!block.tile<64x128xf32>) -> !block.tile<64x1xf32>
      block.accumulate sum %m : !block.tile<64x1xf32>
    } : !block.tile<64x1xf32>
    block.store %s [[], []] : !block.tile<64x1xf32>
  }
  %u = kernel.launch(%z) grid [] schedule <warps = 4, stages = 2> : (tensor<64x510xi8>) -> tensor<64x1xf32> {
  ^bb0(%p: tensor<64x510xi8>):
    %s = block.loop [k = 2] {
      %a = block.load %p [[], [k]] : tensor<64x510xi8> -> !block.tile<64x255xf32>
      %m = block.reduce sum %a dims [1] : (!block.tile<64x255xf32>) -> !block.tile<64x1xf32>
      block.accumulate sum %m : !block.tile<64x1xf32>
    } : !block.tile<64x1xf32>
    block.store %s [[], []] : !block.tile<64x1xf32>
  }
  kernel.return %y, %u : tensor<64x1xf32>, tensor<64x1xf32>
}
