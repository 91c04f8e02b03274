// RUN: mirage-opt %s --mirage-assign-layouts | FileCheck %s
// RUN: mirage-opt %s --mirage-assign-layouts --mirage-pipeline-loops | FileCheck %s --check-prefix=RINGS
// RUN: %execute %s

// With 2 * 145 bytes, each row is 2 bytes further from a multiple of 16 than the previous one. With the pad,
// so are those of the tile: 128 + 16 + 2 bytes. Both factors are contracted along their rows.
// CHECK-LABEL: kernel.graph @linear
// CHECK: block.load %{{.*}} -> !block.tile<16x64xf16, !thread.shared<16x64xf16, pad = 9>>
// CHECK: block.load %{{.*}} -> !block.tile<32x64xf16, !thread.shared<32x64xf16, pad = 9>>
// RINGS: block.load %{{.*}} -> !block.tile<16x64xf16, !thread.shared<3x16x64xf16, pad = 9>>
// RINGS: block.load %{{.*}} -> !block.tile<32x64xf16, !thread.shared<3x32x64xf16, pad = 9>>
kernel.graph @linear(%x: tensor<16x145xf16>, %w: tensor<40x145xf16>) -> tensor<16x40xf16> attributes {form = #kernel.form<selected>} {
  %y = kernel.launch(%x, %w) grid [n = 2] schedule <warps = 4, stages = 3> : (tensor<16x145xf16>, tensor<40x145xf16>) -> tensor<16x40xf16> {
  ^bb0(%gx: tensor<16x145xf16>, %gw: tensor<40x145xf16>):
    %s = block.loop [k = 3] {
      %tx = block.load %gx [[], [k]] : tensor<16x145xf16> -> !block.tile<16x64xf16>
      %tw = block.load %gw [[n], [k]] : tensor<40x145xf16> -> !block.tile<32x64xf16>
      %tt = block.transpose %tw [1, 0] : (!block.tile<32x64xf16>) -> !block.tile<64x32xf16>
      %p = block.matmul %tx, %tt : (!block.tile<16x64xf16>, !block.tile<64x32xf16>) -> !block.tile<16x32xf32>
      block.accumulate sum %p : !block.tile<16x32xf32>
    } : !block.tile<16x32xf32>
    block.store %s [[], [n]] : !block.tile<16x32xf32>
  }
  kernel.return %y : tensor<16x40xf16>
}

// 14 bytes more, each row. 128 + 16 + 14 bytes would put every fourth of eight rows into the same
// banks: one line more.
// CHECK-LABEL: kernel.graph @banks
// CHECK: block.load %{{.*}} -> !block.tile<16x64xbf16, !thread.shared<16x64xbf16, pad = 23>>
// Rows of the right factor are not contracted: they are aligned, and filled through registers.
// CHECK: block.load %{{.*}} -> !block.tile<64x32xbf16, !thread.shared<64x32xbf16, swizzle = 64>>
kernel.graph @banks(%x: tensor<16x143xbf16>, %w: tensor<143x39xbf16>) -> tensor<16x39xf32> attributes {form = #kernel.form<selected>} {
  %y = kernel.launch(%x, %w) grid [n = 2] schedule <warps = 4, stages = 2> : (tensor<16x143xbf16>, tensor<143x39xbf16>) -> tensor<16x39xf32> {
  ^bb0(%gx: tensor<16x143xbf16>, %gw: tensor<143x39xbf16>):
    %s = block.loop [k = 3] {
      %tx = block.load %gx [[], [k]] : tensor<16x143xbf16> -> !block.tile<16x64xbf16>
      %tw = block.load %gw [[k], [n]] : tensor<143x39xbf16> -> !block.tile<64x32xbf16>
      %p = block.matmul %tx, %tw : (!block.tile<16x64xbf16>, !block.tile<64x32xbf16>) -> !block.tile<16x32xf32>
      block.accumulate sum %p : !block.tile<16x32xf32>
    } : !block.tile<16x32xf32>
    block.store %s [[], [n]] : !block.tile<16x32xf32>
  }
  kernel.return %y : tensor<16x39xf32>
}

// Blocks start at every fourth row, which starts within a line. Elementwise ops read the other factor
// in registers.
// CHECK-LABEL: kernel.graph @neither
// CHECK: block.load %{{.*}} -> !block.tile<4x32xf16, !thread.shared<{{[0-9]+}}x32xf16, swizzle = 64>>
// CHECK: block.load %{{.*}} -> !block.tile<32x32xf16, !thread.shared<32x32xf16, swizzle = 64>>
kernel.graph @neither(%x: tensor<8x65xf16>, %w: tensor<32x65xf16>) -> tensor<8x32xf32> attributes {form = #kernel.form<selected>} {
  %y = kernel.launch(%x, %w) grid [m = 2] schedule <warps = 4, stages = 2> : (tensor<8x65xf16>, tensor<32x65xf16>) -> tensor<8x32xf32> {
  ^bb0(%gx: tensor<8x65xf16>, %gw: tensor<32x65xf16>):
    %s, %q = block.loop [k = 3] {
      %tx = block.load %gx [[m], [k]] : tensor<8x65xf16> -> !block.tile<4x32xf16>
      %tw = block.load %gw [[], [k]] : tensor<32x65xf16> -> !block.tile<32x32xf16>
      %tt = block.transpose %tw [1, 0] : (!block.tile<32x32xf16>) -> !block.tile<32x32xf16>
      %p = block.matmul %tx, %tt : (!block.tile<4x32xf16>, !block.tile<32x32xf16>) -> !block.tile<4x32xf32>
      %e = block.unary exp %tt : (!block.tile<32x32xf16>) -> !block.tile<32x32xf32>
      %r = block.reduce max %e dims [0] : (!block.tile<32x32xf32>) -> !block.tile<1x32xf32>
      block.accumulate sum %p, max %r : !block.tile<4x32xf32>, !block.tile<1x32xf32>
    } : !block.tile<4x32xf32>, !block.tile<1x32xf32>
    %z = block.binary add %s, %q : (!block.tile<4x32xf32>, !block.tile<1x32xf32>) -> !block.tile<4x32xf32>
    block.store %z [[m], []] : !block.tile<4x32xf32>
  }
  kernel.return %y : tensor<8x32xf32>
}
