// RUN: mirage-opt %s --mirage-pipeline-loops 2>&1 | FileCheck %s

// Seven slots of 32768 bytes would fit, but not beside the memory through which
// the warps exchange the tile in each step.
#rows = #thread.layout<reg = [[0, 1], [0, 2], [0, 4], [1, 0], [2, 0], [4, 0], [8, 0]], lane = [[0, 8], [0, 16], [0, 32], [0, 64], [0, 128]], warp = [[16, 0], [32, 0]]>
#cols = #thread.layout<reg = [[0, 1], [0, 2], [0, 4], [4, 0], [8, 0], [16, 0], [32, 0]], lane = [[0, 8], [0, 16], [0, 32], [1, 0], [2, 0]], warp = [[0, 64], [0, 128]]>
!staged = !block.tile<64x256xf16, !thread.shared<64x256xf16, swizzle = 128>>
!by_rows = !block.tile<64x256xf16, !thread.fragment<64x256xf16, #rows>>
!by_cols = !block.tile<64x256xf16, !thread.fragment<64x256xf16, #cols>>

// CHECK: remark: pipeline of 6 stages instead of 8: the latter needs {{[0-9]+}} bytes of shared memory, sm_90a has 232448
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

