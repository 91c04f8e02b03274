// RUN: mirage-opt %s --split-input-file --pass-pipeline='builtin.module(kernel.graph(mirage-view-tensors))' | FileCheck %s

// Half of each row: an address and the steps of the whole tensor.
// CHECK-LABEL: @half
// CHECK: kernel.slice %{{.*}} [0, 16] : (tensor<8x32xf16>) -> tensor<8x16xf16, #kernel.strides<[32, 1], align = 16>>
// CHECK: kernel.launch(%{{.*}}) {{.*}} : (tensor<8x16xf16, #kernel.strides<[32, 1], align = 16>>)
kernel.graph @half(%x: tensor<8x32xf16>) -> tensor<8x16xf16> {
  %0 = kernel.slice %x [0, 16] : (tensor<8x32xf16>) -> tensor<8x16xf16>
  %1 = kernel.launch(%0) grid [n = 1] schedule <warps = 4, stages = 1> : (tensor<8x16xf16>) -> tensor<8x16xf16> {
  ^bb0(%p: tensor<8x16xf16>):
    %t = block.load %p [[n], []] : tensor<8x16xf16> -> !block.tile<8x16xf16>
    block.store %t [[n], []] : !block.tile<8x16xf16>
  }
  kernel.return %1 : tensor<8x16xf16>
}

// -----

// Every second element, in another shape: it starts at a multiple of 2 bytes.
// CHECK-LABEL: @odd
// CHECK: kernel.slice {{.*}} -> tensor<8x16x1xf16, #kernel.strides<[32, 2, 1], align = 2>>
// CHECK: kernel.reshape {{.*}} -> tensor<8x16xf16, #kernel.strides<[32, 2], align = 2>>
kernel.graph @odd(%x: tensor<8x32xf16>) -> tensor<8x16xf16> {
  %0 = kernel.reshape %x : (tensor<8x32xf16>) -> tensor<8x16x2xf16>
  %1 = kernel.slice %0 [0, 0, 1] : (tensor<8x16x2xf16>) -> tensor<8x16x1xf16>
  %2 = kernel.reshape %1 : (tensor<8x16x1xf16>) -> tensor<8x16xf16>
  %3 = kernel.launch(%2) grid [n = 1] schedule <warps = 4, stages = 1> : (tensor<8x16xf16>) -> tensor<8x16xf16> {
  ^bb0(%p: tensor<8x16xf16>):
    %t = block.load %p [[n], []] : tensor<8x16xf16> -> !block.tile<8x16xf16>
    block.store %t [[n], []] : !block.tile<8x16xf16>
  }
  kernel.return %3 : tensor<8x16xf16>
}

// -----

// No strides describe all elements; the caller gets a separate tensor; blocks in one piece are addresses
// already.
// CHECK-LABEL: @stay
// CHECK-NOT: #kernel.strides
kernel.graph @stay(%x: tensor<8x32xf16>) -> (tensor<128xf16>, tensor<8x16xf16>, tensor<2x32xf16>) {
  %0 = kernel.slice %x [0, 16] : (tensor<8x32xf16>) -> tensor<8x16xf16>
  %1 = kernel.reshape %0 : (tensor<8x16xf16>) -> tensor<128xf16>
  %2 = kernel.slice %x [0, 8] : (tensor<8x32xf16>) -> tensor<8x16xf16>
  %3 = kernel.slice %x [4, 0] : (tensor<8x32xf16>) -> tensor<2x32xf16>
  %4 = kernel.launch(%1) grid [n = 1] schedule <warps = 4, stages = 1> : (tensor<128xf16>) -> tensor<128xf16> {
  ^bb0(%p: tensor<128xf16>):
    %t = block.load %p [[n]] : tensor<128xf16> -> !block.tile<128xf16>
    block.store %t [[n]] : !block.tile<128xf16>
  }
  %5 = kernel.launch(%3) grid [n = 1] schedule <warps = 4, stages = 1> : (tensor<2x32xf16>) -> tensor<2x32xf16> {
  ^bb0(%p: tensor<2x32xf16>):
    %t = block.load %p [[n], []] : tensor<2x32xf16> -> !block.tile<2x32xf16>
    block.store %t [[n], []] : !block.tile<2x32xf16>
  }
  kernel.return %4, %2, %5 : tensor<128xf16>, tensor<8x16xf16>, tensor<2x32xf16>
}

// -----

// Rows that the tensor memory accelerator cannot find.
// CHECK-LABEL: @warpgroups
// CHECK-NOT: #kernel.strides
kernel.graph @warpgroups(%x: tensor<64x72xf16>) -> tensor<64x64xf16> {
  %0 = kernel.slice %x [0, 4] : (tensor<64x72xf16>) -> tensor<64x64xf16>
  %1 = kernel.launch(%0) grid [n = 1] schedule <warps = 4, stages = 2, engine = warpgroup> : (tensor<64x64xf16>) -> tensor<64x64xf16> {
  ^bb0(%p: tensor<64x64xf16>):
    %t = block.load %p [[n], []] : tensor<64x64xf16> -> !block.tile<64x64xf16>
    block.store %t [[n], []] : !block.tile<64x64xf16>
  }
  kernel.return %1 : tensor<64x64xf16>
}

// -----

// Two results that are joined: each launch stores to its part.
// CHECK-LABEL: @join
// CHECK: kernel.launch{{.*}} -> tensor<8x16xf16, #kernel.strides<[48, 1], align = 16>>
// CHECK: kernel.launch{{.*}} -> tensor<8x32xf16, #kernel.strides<[48, 1], align = 16>>
// CHECK: kernel.concat {{.*}} -> tensor<8x48xf16>
kernel.graph @join(%x: tensor<8x16xf16>, %y: tensor<8x32xf16>) -> tensor<8x48xf16> {
  %0 = kernel.launch(%x) grid [n = 1] schedule <warps = 4, stages = 1> : (tensor<8x16xf16>) -> tensor<8x16xf16> {
  ^bb0(%p: tensor<8x16xf16>):
    %t = block.load %p [[n], []] : tensor<8x16xf16> -> !block.tile<8x16xf16>
    block.store %t [[n], []] : !block.tile<8x16xf16>
  }
  %1 = kernel.launch(%y) grid [n = 1] schedule <warps = 4, stages = 1> : (tensor<8x32xf16>) -> tensor<8x32xf16> {
  ^bb0(%p: tensor<8x32xf16>):
    %t = block.load %p [[n], []] : tensor<8x32xf16> -> !block.tile<8x32xf16>
    block.store %t [[n], []] : !block.tile<8x32xf16>
  }
  %2 = kernel.concat %0, %1 dim 1 : (tensor<8x16xf16>, tensor<8x32xf16>) -> tensor<8x48xf16>
  kernel.return %2 : tensor<8x48xf16>
}

// -----

// A join that is a part of another one: each launch stores to its part of the outer one.
// CHECK-LABEL: @joined_twice
// CHECK: kernel.launch{{.*}} -> tensor<8x5xf16, #kernel.strides<[18, 1], align = 16>>
// CHECK: kernel.launch{{.*}} -> tensor<8x13xf16, #kernel.strides<[18, 1], align = 2>>
// CHECK: kernel.launch{{.*}} -> tensor<2x18xf16, #kernel.strides<[18, 1], align = 16>>
// CHECK: kernel.concat {{.*}} -> tensor<8x18xf16, #kernel.strides<[18, 1], align = 16>>
// CHECK: kernel.concat {{.*}} -> tensor<10x18xf16>
kernel.graph @joined_twice(%x: tensor<8x5xf16>, %y: tensor<8x13xf16>, %z: tensor<2x18xf16>) -> tensor<10x18xf16> {
  %0 = kernel.launch(%x) grid [n = 1] schedule <warps = 4, stages = 1> : (tensor<8x5xf16>) -> tensor<8x5xf16> {
  ^bb0(%p: tensor<8x5xf16>):
    %t = block.load %p [[n], []] : tensor<8x5xf16> -> !block.tile<8x5xf16>
    block.store %t [[n], []] : !block.tile<8x5xf16>
  }
  %1 = kernel.launch(%y) grid [n = 1] schedule <warps = 4, stages = 1> : (tensor<8x13xf16>) -> tensor<8x13xf16> {
  ^bb0(%p: tensor<8x13xf16>):
    %t = block.load %p [[n], []] : tensor<8x13xf16> -> !block.tile<8x13xf16>
    block.store %t [[n], []] : !block.tile<8x13xf16>
  }
  %2 = kernel.launch(%z) grid [n = 1] schedule <warps = 4, stages = 1> : (tensor<2x18xf16>) -> tensor<2x18xf16> {
  ^bb0(%p: tensor<2x18xf16>):
    %t = block.load %p [[n], []] : tensor<2x18xf16> -> !block.tile<2x18xf16>
    block.store %t [[n], []] : !block.tile<2x18xf16>
  }
  %3 = kernel.concat %0, %1 dim 1 : (tensor<8x5xf16>, tensor<8x13xf16>) -> tensor<8x18xf16>
  %4 = kernel.concat %3, %2 dim 0 : (tensor<8x18xf16>, tensor<2x18xf16>) -> tensor<10x18xf16>
  kernel.return %4 : tensor<10x18xf16>
}

// -----

// A part that already exists is copied, and so is one that another op reads.
// CHECK-LABEL: @copied
// CHECK-NOT: #kernel.strides
kernel.graph @copied(%x: tensor<8x16xf16>) -> (tensor<8x32xf16>, tensor<8x16xf16>, tensor<8x32xf16>) {
  %0 = kernel.launch(%x) grid [n = 1] schedule <warps = 4, stages = 1> : (tensor<8x16xf16>) -> tensor<8x16xf16> {
  ^bb0(%p: tensor<8x16xf16>):
    %t = block.load %p [[n], []] : tensor<8x16xf16> -> !block.tile<8x16xf16>
    block.store %t [[n], []] : !block.tile<8x16xf16>
  }
  %1 = kernel.launch(%x) grid [n = 1] schedule <warps = 4, stages = 1> : (tensor<8x16xf16>) -> tensor<8x16xf16> {
  ^bb0(%p: tensor<8x16xf16>):
    %t = block.load %p [[n], []] : tensor<8x16xf16> -> !block.tile<8x16xf16>
    block.store %t [[n], []] : !block.tile<8x16xf16>
  }
  %2 = kernel.concat %x, %0 dim 1 : (tensor<8x16xf16>, tensor<8x16xf16>) -> tensor<8x32xf16>
  %3 = kernel.concat %1, %1 dim 1 : (tensor<8x16xf16>, tensor<8x16xf16>) -> tensor<8x32xf16>
  kernel.return %2, %1, %3 : tensor<8x32xf16>, tensor<8x16xf16>, tensor<8x32xf16>
}

// -----

// The row of a cache is stored by the launch that computes it: columns are digits of a head and
// a place in it.
// CHECK-LABEL: @cached
// CHECK: kernel.launch(%{{.*}}, %{{.*}}) grid [n = 4] {{.*}}places [#kernel.place<result = 0, index = 1, offset = 0, shape = [64, 3, 2, 16], steps = [16, 2048, 1024, 1], digits = [1, 2]>]
// CHECK-SAME: (tensor<3x32xf16>, tensor<1xi64>) -> tensor<3x32xf16>
// CHECK: kernel.index_copy
kernel.graph @cached(%x: tensor<3x32xf16>, %cache: tensor<3x2x64x16xf16>, %at: tensor<1xi64>) -> tensor<3x2x64x16xf16> {
  %0 = kernel.launch(%x) grid [n = 4] schedule <warps = 1, stages = 1> : (tensor<3x32xf16>) -> tensor<3x32xf16> {
  ^bb0(%p: tensor<3x32xf16>):
    %t = block.load %p [[], [n]] : tensor<3x32xf16> -> !block.tile<3x8xf16>
    block.store %t [[], [n]] : !block.tile<3x8xf16>
  }
  %1 = kernel.reshape %0 : (tensor<3x32xf16>) -> tensor<3x2x1x16xf16>
  %2 = kernel.index_copy %cache, %at, %1 dim 2 : (tensor<3x2x64x16xf16>, tensor<1xi64>, tensor<3x2x1x16xf16>) -> tensor<3x2x64x16xf16>
  kernel.return %2 : tensor<3x2x64x16xf16>
}

// -----

// The old contents of the cache are needed; the row is needed separately.
// CHECK-LABEL: @needed
// CHECK-NOT: places
kernel.graph @needed(%x: tensor<1x16xf16>, %a: tensor<8x16xf16>, %b: tensor<8x16xf16>, %at: tensor<1xi64>)
    -> (tensor<8x16xf16>, tensor<8x16xf16>, tensor<8x16xf16>, tensor<1x16xf16>) {
  %0, %1 = kernel.launch(%x) grid [n = 1] schedule <warps = 1, stages = 1> : (tensor<1x16xf16>) -> (tensor<1x16xf16>, tensor<1x16xf16>) {
  ^bb0(%p: tensor<1x16xf16>):
    %t = block.load %p [[], [n]] : tensor<1x16xf16> -> !block.tile<1x16xf16>
    block.store %t [[], [n]], %t [[], [n]] : !block.tile<1x16xf16>, !block.tile<1x16xf16>
  }
  %2 = kernel.index_copy %a, %at, %0 dim 0 : (tensor<8x16xf16>, tensor<1xi64>, tensor<1x16xf16>) -> tensor<8x16xf16>
  %3 = kernel.index_copy %b, %at, %1 dim 0 : (tensor<8x16xf16>, tensor<1xi64>, tensor<1x16xf16>) -> tensor<8x16xf16>
  kernel.return %2, %a, %3, %1 : tensor<8x16xf16>, tensor<8x16xf16>, tensor<8x16xf16>, tensor<1x16xf16>
}

// -----

// If a row is a join of two results, each is stored to its part.
// CHECK-LABEL: @halves
// CHECK: places [#kernel.place<result = 0, index = 1, offset = 0, shape = [64, 3, 2, 8], steps = [16, 2048, 1024, 1], digits = [1, 1, 1]>, #kernel.place<result = 1, index = 2, offset = 8, shape = [64, 3, 2, 8], steps = [16, 2048, 1024, 1], digits = [1, 1, 1]>]
kernel.graph @halves(%x: tensor<3x2x8xf16>, %cache: tensor<3x2x64x16xf16>, %at: tensor<1xi64>) -> tensor<3x2x64x16xf16> {
  %0, %1 = kernel.launch(%x) grid [n = 3] schedule <warps = 1, stages = 1> : (tensor<3x2x8xf16>) -> (tensor<3x2x8xf16>, tensor<3x2x8xf16>) {
  ^bb0(%p: tensor<3x2x8xf16>):
    %t = block.load %p [[n], [], []] : tensor<3x2x8xf16> -> !block.tile<1x2x8xf16>
    block.store %t [[n], [], []], %t [[n], [], []] : !block.tile<1x2x8xf16>, !block.tile<1x2x8xf16>
  }
  %2 = kernel.reshape %0 : (tensor<3x2x8xf16>) -> tensor<3x2x1x8xf16>
  %3 = kernel.reshape %1 : (tensor<3x2x8xf16>) -> tensor<3x2x1x8xf16>
  %4 = kernel.concat %2, %3 dim 3 : (tensor<3x2x1x8xf16>, tensor<3x2x1x8xf16>) -> tensor<3x2x1x16xf16>
  %5 = kernel.index_copy %cache, %at, %4 dim 2 : (tensor<3x2x64x16xf16>, tensor<1xi64>, tensor<3x2x1x16xf16>) -> tensor<3x2x64x16xf16>
  kernel.return %5 : tensor<3x2x64x16xf16>
}

// -----

// Half of each row of a table is an address, too, but not a part of a row: rows that are looked up are
// contiguous.
// CHECK-LABEL: @table
// CHECK: kernel.slice %{{.*}} [0, 4, 0] : (tensor<8x8x16xf16>) -> tensor<8x4x16xf16, #kernel.strides<[128, 16, 1], align = 16>>
// CHECK: kernel.slice %{{.*}} [0, 0, 8] : (tensor<8x8x16xf16>) -> tensor<8x8x8xf16>
kernel.graph @table(%x: tensor<8x8x16xf16>, %i: tensor<2xi64>) -> (tensor<2x4x16xf16>, tensor<2x8x8xf16>) {
  %0 = kernel.slice %x [0, 4, 0] : (tensor<8x8x16xf16>) -> tensor<8x4x16xf16>
  %1 = kernel.slice %x [0, 0, 8] : (tensor<8x8x16xf16>) -> tensor<8x8x8xf16>
  %2:2 = kernel.launch(%0, %1, %i) grid [n = 2] schedule <warps = 4, stages = 1> : (tensor<8x4x16xf16>, tensor<8x8x8xf16>, tensor<2xi64>) -> (tensor<2x4x16xf16>, tensor<2x8x8xf16>) {
  ^bb0(%p: tensor<8x4x16xf16>, %q: tensor<8x8x8xf16>, %r: tensor<2xi64>):
    %t = block.gather %p, %r [[n], [], []] : tensor<8x4x16xf16>, tensor<2xi64> -> !block.tile<1x4x16xf16>
    %u = block.gather %q, %r [[n], [], []] : tensor<8x8x8xf16>, tensor<2xi64> -> !block.tile<1x8x8xf16>
    block.store %t [[n], [], []], %u [[n], [], []] : !block.tile<1x4x16xf16>, !block.tile<1x8x8xf16>
  }
  kernel.return %2#0, %2#1 : tensor<2x4x16xf16>, tensor<2x8x8xf16>
}
