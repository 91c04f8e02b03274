// RUN: mirage-opt %s --mirage-pipeline-loops 2>&1 | FileCheck %s

// Seven slots of 32768 bytes would fit, but not beside the memory through which
// the warps exchange the tile in each step.
#rows = #thread.layout<reg = [[0, 1], [0, 2], [0, 4], [1, 0], [2, 0], [4, 0], [8, 0]], lane = [[0, 8], [0, 16], [0, 32], [0, 64], [0, 128]], warp = [[16, 0], [32, 0]]>
#cols = #thread.layout<reg = [[0, 1], [0, 2], [0, 4], [4, 0], [8, 0], [16, 0], [32, 0]], lane = [[0, 8], [0, 16], [0, 32], [1, 0], [2, 0]], warp = [[0, 64], [0, 128]]>
!staged = !block.tile<64x256xf16, !thread.shared<64x256xf16, swizzle = 128>>
!by_rows = !block.tile<64x256xf16, !thread.fragment<64x256xf16, #rows>>
!by_cols = !block.tile<64x256xf16, !thread.fragment<64x256xf16, #cols>>

// CHECK: remark: pipeline of 6 stages instead of 8: the latter needs {{[0-9]+}} bytes of shared memory, sm_90a has 232448
// CHECK: remark: pipeline of 1 stages instead of 2
// CHECK: block.loop [k = 16] attributes {stages = 6 : i64}
kernel.graph @exchange(%x: tensor<64x4096xf16>) -> tensor<64x256xf16> {
  %y = kernel.launch(%x) grid [] schedule <warps = 4, stages = 8> : (tensor<64x4096xf16>) -> tensor<64x256xf16> {
  ^bb0(%gx: tensor<64x4096xf16>):
    %l = block.loop [k = 16] {
      %t = block.load %gx [[], [k]] : tensor<64x4096xf16> -> !staged
      %r = block.convert_layout %t : (!staged) -> !by_rows
      %c = block.convert_layout %r : (!by_rows) -> !by_cols
      block.accumulate last %c : !by_cols
    } : !by_cols
    block.store %l [[], []] : !by_cols
  }
  kernel.return %y : tensor<64x256xf16>
}

// Of a reduction over both dimensions the first one is spread over the warps: a
// row of sums of each of them, which only one slot leaves room for.
#spread = #thread.layout<reg = [[0, 1], [0, 2], [0, 4], [8, 0], [16, 0]], lane = [[0, 8], [0, 16], [0, 32], [0, 64], [0, 128]], warp = [[1, 0], [2, 0], [4, 0]], repeat = [1, 7]>
#one = #thread.layout<reg = [], lane = [[0, 0], [0, 0], [0, 0], [0, 0], [0, 0]], warp = [[0, 0], [0, 0], [0, 0]]>
!tile = !block.tile<32x1792xf16, !thread.shared<32x1792xf16, swizzle = 128>>
!held = !block.tile<32x1792xf16, !thread.fragment<32x1792xf16, #spread>>
!number = !block.tile<1x1xf32, !thread.fragment<1x1xf32, #one>>

// CHECK: kernel.graph @both_dimensions
// CHECK: block.loop [k = 10] attributes {stages = 1 : i64}
kernel.graph @both_dimensions(%x: tensor<32x17920xf16>) -> tensor<1x1xf32> {
  %y = kernel.launch(%x) grid [] schedule <warps = 8, stages = 2> : (tensor<32x17920xf16>) -> tensor<1x1xf32> {
  ^bb0(%gx: tensor<32x17920xf16>):
    %l = block.loop [k = 10] {
      %t = block.load %gx [[], [k]] : tensor<32x17920xf16> -> !tile
      %r = block.convert_layout %t : (!tile) -> !held
      %s = block.reduce max %r dims [0, 1] : (!held) -> !number
      block.accumulate max %s : !number
    } : !number
    block.store %l [[], []] : !number
  }
  kernel.return %y : tensor<1x1xf32>
}
