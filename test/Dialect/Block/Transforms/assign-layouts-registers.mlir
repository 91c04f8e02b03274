// Launches whose tiles need more registers than a thread has.
// RUN: mirage-opt %s --mirage-assign-layouts --mlir-pass-statistics --split-input-file 2>&1 | FileCheck %s
// RUN: %execute %s

// 128 x 256 scores in f32 are 256 registers of each of 128 threads: the launch
// gets twice the warps.
// CHECK-LABEL: kernel.graph @scores
// CHECK: schedule <warps = 8, stages = 2>
// CHECK-SAME: block.registers = 1{{[0-9][0-9]}} : i64
kernel.graph @scores(%q: tensor<128x64xf16>, %k: tensor<64x1024xf16>) -> tensor<128x1xf32> {
  %y = kernel.launch(%q, %k) grid [] schedule <warps = 4, stages = 2> : (tensor<128x64xf16>, tensor<64x1024xf16>) -> tensor<128x1xf32> {
  ^bb0(%gq: tensor<128x64xf16>, %gk: tensor<64x1024xf16>):
    %tq = block.load %gq [[], []] : tensor<128x64xf16> -> !block.tile<128x64xf16>
    %m = block.loop [n = 4] {
      %tk = block.load %gk [[], [n]] : tensor<64x1024xf16> -> !block.tile<64x256xf16>
      %s = block.matmul %tq, %tk : (!block.tile<128x64xf16>, !block.tile<64x256xf16>) -> !block.tile<128x256xf32>
      %r = block.reduce max %s dims [1] : (!block.tile<128x256xf32>) -> !block.tile<128x1xf32>
      block.accumulate max %r : !block.tile<128x1xf32>
    } : !block.tile<128x1xf32>
    block.store %m [[], []] : !block.tile<128x1xf32>
  }
  kernel.return %y : tensor<128x1xf32>
}

// -----

// The sum reads the f32 tile before the cast, which then takes its place: 4
// warps suffice.
// CHECK-LABEL: kernel.graph @order
// CHECK: schedule <warps = 4, stages = 2>
// CHECK: %[[E:.*]] = block.unary exp
// CHECK-NEXT: block.reduce sum %[[E]]
// CHECK-NEXT: block.cast %[[E]]
kernel.graph @order(%q: tensor<128x64xf16>, %k: tensor<64x1024xf16>, %v: tensor<1024x64xf16>) -> (tensor<128x64xf32>, tensor<128x1xf32>) {
  %y:2 = kernel.launch(%q, %k, %v) grid [] schedule <warps = 4, stages = 2> : (tensor<128x64xf16>, tensor<64x1024xf16>, tensor<1024x64xf16>) -> (tensor<128x64xf32>, tensor<128x1xf32>) {
  ^bb0(%gq: tensor<128x64xf16>, %gk: tensor<64x1024xf16>, %gv: tensor<1024x64xf16>):
    %tq = block.load %gq [[], []] : tensor<128x64xf16> -> !block.tile<128x64xf16>
    %o:2 = block.loop [n = 8] {
      %tk = block.load %gk [[], [n]] : tensor<64x1024xf16> -> !block.tile<64x128xf16>
      %tv = block.load %gv [[n], []] : tensor<1024x64xf16> -> !block.tile<128x64xf16>
      %s = block.matmul %tq, %tk : (!block.tile<128x64xf16>, !block.tile<64x128xf16>) -> !block.tile<128x128xf32>
      %e = block.unary exp %s : (!block.tile<128x128xf32>) -> !block.tile<128x128xf32>
      %p = block.cast %e : (!block.tile<128x128xf32>) -> !block.tile<128x128xf16>
      %r = block.reduce sum %e dims [1] : (!block.tile<128x128xf32>) -> !block.tile<128x1xf32>
      %a = block.matmul %p, %tv : (!block.tile<128x128xf16>, !block.tile<128x64xf16>) -> !block.tile<128x64xf32>
      block.accumulate sum %a, sum %r : !block.tile<128x64xf32>, !block.tile<128x1xf32>
    } : !block.tile<128x64xf32>, !block.tile<128x1xf32>
    block.store %o#0 [[], []], %o#1 [[], []] : !block.tile<128x64xf32>, !block.tile<128x1xf32>
  }
  kernel.return %y#0, %y#1 : tensor<128x64xf32>, tensor<128x1xf32>
}

// -----

// A load after a barrier would wait for memory once more, so it comes first. If there are so many values that
// fewer blocks would run at once, they stay where they are read.
// CHECK-LABEL: kernel.graph @together
// CHECK: block.load
// CHECK-NEXT: block.load
// CHECK: block.reduce
// CHECK-LABEL: kernel.graph @apart
// CHECK: block.load
// CHECK: block.reduce
// CHECK: block.load
kernel.graph @together(%x: tensor<32x16xf32>, %w: tensor<1x32xf32>) -> tensor<1x32xf32> {
  %y = kernel.launch(%x, %w) grid [] schedule <warps = 4, stages = 1> : (tensor<32x16xf32>, tensor<1x32xf32>) -> tensor<1x32xf32> {
  ^bb0(%gx: tensor<32x16xf32>, %gw: tensor<1x32xf32>):
    %tx = block.load %gx [[], []] : tensor<32x16xf32> -> !block.tile<32x16xf32>
    %r = block.reduce sum %tx dims [0, 1] : (!block.tile<32x16xf32>) -> !block.tile<1x1xf32>
    %tw = block.load %gw [[], []] : tensor<1x32xf32> -> !block.tile<1x32xf32>
    %p = block.binary mul %tw, %r : (!block.tile<1x32xf32>, !block.tile<1x1xf32>) -> !block.tile<1x32xf32>
    block.store %p [[], []] : !block.tile<1x32xf32>
  }
  kernel.return %y : tensor<1x32xf32>
}
kernel.graph @apart(%x: tensor<64x128xf32>, %w: tensor<64x128xf32>) -> tensor<64x128xf32> {
  %y = kernel.launch(%x, %w) grid [] schedule <warps = 4, stages = 1> : (tensor<64x128xf32>, tensor<64x128xf32>) -> tensor<64x128xf32> {
  ^bb0(%gx: tensor<64x128xf32>, %gw: tensor<64x128xf32>):
    %tx = block.load %gx [[], []] : tensor<64x128xf32> -> !block.tile<64x128xf32>
    %r = block.reduce sum %tx dims [0, 1] : (!block.tile<64x128xf32>) -> !block.tile<1x1xf32>
    %tw = block.load %gw [[], []] : tensor<64x128xf32> -> !block.tile<64x128xf32>
    %p = block.binary mul %tw, %r : (!block.tile<64x128xf32>, !block.tile<1x1xf32>) -> !block.tile<64x128xf32>
    block.store %p [[], []] : !block.tile<64x128xf32>
  }
  kernel.return %y : tensor<64x128xf32>
}
