// RUN: mirage-opt %s --mirage-split-over-clusters --split-input-file --verify-diagnostics | FileCheck %s

// A row that a block had whole: each block has a part of it, and totals need each other.
// CHECK-LABEL: kernel.graph @softmax
// CHECK: grid [m = 6, part = 4]
// CHECK: %[[X:.*]] = block.load %{{.*}} {{\[\[}}m], [part]] : tensor<6x256xf16> -> !block.tile<1x64xf16>
// CHECK: %[[M:.*]] = block.reduce max %[[X]] dims [1]
// CHECK: %[[ALL:.*]] = block.cluster_reduce max %[[M]] along [part] : !block.tile<1x1xf32>
// CHECK: block.binary sub %[[X]], %[[ALL]] {{.*}} -> !block.tile<1x64xf32>
// CHECK: %[[S:.*]] = block.reduce sum
// CHECK: %[[SUM:.*]] = block.cluster_reduce sum %[[S]] along [part]
// CHECK: block.unary reciprocal %[[SUM]]
// CHECK: block.store %{{.*}} {{\[\[}}m], [part]] : !block.tile<1x64xf32>
kernel.graph @softmax(%x: tensor<6x256xf16>) -> tensor<6x256xf32> {
  %y = kernel.launch(%x) grid [m = 6] schedule <warps = 2, stages = 1, cluster = 4> : (tensor<6x256xf16>) -> tensor<6x256xf32> {
  ^bb0(%gx: tensor<6x256xf16>):
    %t = block.load %gx [[m], []] : tensor<6x256xf16> -> !block.tile<1x256xf16>
    %m = block.reduce max %t dims [1] : (!block.tile<1x256xf16>) -> !block.tile<1x1xf32>
    %d = block.binary sub %t, %m : (!block.tile<1x256xf16>, !block.tile<1x1xf32>) -> !block.tile<1x256xf32>
    %e = block.unary exp %d : (!block.tile<1x256xf32>) -> !block.tile<1x256xf32>
    %l = block.reduce sum %e dims [1] : (!block.tile<1x256xf32>) -> !block.tile<1x1xf32>
    %r = block.unary reciprocal %l : (!block.tile<1x1xf32>) -> !block.tile<1x1xf32>
    %o = block.binary mul %e, %r : (!block.tile<1x256xf32>, !block.tile<1x1xf32>) -> !block.tile<1x256xf32>
    block.store %o [[m], []] : !block.tile<1x256xf32>
  }
  kernel.return %y : tensor<6x256xf32>
}

// -----

// A row that is read twice: blocks share the steps, of which one each is left, and exchange the
// maxima and the sums that belong to them at once. The axis has a name that is free.
// CHECK-LABEL: kernel.graph @running
// CHECK: grid [m = 6, part1 = 4]
// CHECK-NOT: block.loop
// CHECK: %[[X:.*]] = block.load %{{.*}} {{\[\[}}m], [part1]] : tensor<6x256xf16> -> !block.tile<1x64xf16>
// CHECK: %[[M:.*]] = block.reduce max %[[X]]
// CHECK: block.binary sub %[[X]], %[[M]]
// CHECK: %[[S:.*]] = block.reduce sum
// CHECK: %[[ALL:.*]] = block.cluster_reduce max %[[M]] along [part1]
// CHECK-NEXT: %[[SUM:.*]] = block.cluster_reduce sum %[[S]] rescale %[[M]] along [part1]
// CHECK: block.binary sub %{{.*}}, %[[ALL]]
// CHECK: block.binary mul %{{.*}}, %[[SUM]]
kernel.graph @running(%x: tensor<6x256xf16>) -> tensor<6x256xf32> {
  %y = kernel.launch(%x) grid [m = 6] schedule <warps = 2, stages = 1, cluster = 4> : (tensor<6x256xf16>) -> tensor<6x256xf32> {
  ^bb0(%gx: tensor<6x256xf16>):
    %m, %l = block.loop [part = 4] {
      %a = block.load %gx [[m], [part]] : tensor<6x256xf16> -> !block.tile<1x64xf16>
      %b = block.reduce max %a dims [1] : (!block.tile<1x64xf16>) -> !block.tile<1x1xf32>
      %u = block.running_max %b : !block.tile<1x1xf32>
      %c = block.binary sub %a, %u : (!block.tile<1x64xf16>, !block.tile<1x1xf32>) -> !block.tile<1x64xf32>
      %e = block.unary exp %c : (!block.tile<1x64xf32>) -> !block.tile<1x64xf32>
      %s = block.reduce sum %e dims [1] : (!block.tile<1x64xf32>) -> !block.tile<1x1xf32>
      block.accumulate last %u, sum %s rescale %u : !block.tile<1x1xf32>, !block.tile<1x1xf32> rescale : !block.tile<1x1xf32>
    } : !block.tile<1x1xf32>, !block.tile<1x1xf32>
    %t = block.load %gx [[m], []] : tensor<6x256xf16> -> !block.tile<1x256xf16>
    %d = block.binary sub %t, %m : (!block.tile<1x256xf16>, !block.tile<1x1xf32>) -> !block.tile<1x256xf32>
    %o = block.binary mul %d, %l : (!block.tile<1x256xf32>, !block.tile<1x1xf32>) -> !block.tile<1x256xf32>
    block.store %o [[m], []] : !block.tile<1x256xf32>
  }
  kernel.return %y : tensor<6x256xf32>
}

// -----

// Several steps are left. Masks and maps have the blocks' part first.
// CHECK-LABEL: kernel.graph @steps
// CHECK: block.loop [k = 2]
// CHECK: block.load %{{.*}} {{\[\[}}m], [part, k]] : tensor<6x250xf16> -> !block.tile<1x32xf16>
// CHECK: block.mask %{{.*}} dim 1 [part, k] extent 250
// CHECK: block.cluster_reduce sum %{{.*}} along [part]
// CHECK: block.load %{{.*}} {{\[\[}}m], [part]] : tensor<6x250xf16> -> !block.tile<1x64xf16>
kernel.graph @steps(%x: tensor<6x250xf16>) -> tensor<6x250xf32> {
  %y = kernel.launch(%x) grid [m = 6] schedule <warps = 2, stages = 1, cluster = 4> : (tensor<6x250xf16>) -> tensor<6x250xf32> {
  ^bb0(%gx: tensor<6x250xf16>):
    %l = block.loop [k = 8] {
      %a = block.load %gx [[m], [k]] : tensor<6x250xf16> -> !block.tile<1x32xf16>
      %e = block.unary exp %a : (!block.tile<1x32xf16>) -> !block.tile<1x32xf32>
      %z = block.mask %e dim 1 [k] extent 250 fill 0.0 : !block.tile<1x32xf32>
      %s = block.reduce sum %z dims [1] : (!block.tile<1x32xf32>) -> !block.tile<1x1xf32>
      block.accumulate sum %s : !block.tile<1x1xf32>
    } : !block.tile<1x1xf32>
    %t = block.load %gx [[m], []] : tensor<6x250xf16> -> !block.tile<1x256xf16>
    %o = block.binary mul %t, %l : (!block.tile<1x256xf16>, !block.tile<1x1xf32>) -> !block.tile<1x256xf32>
    block.store %o [[m], []] : !block.tile<1x256xf32>
  }
  kernel.return %y : tensor<6x250xf32>
}

// -----

// Totals that need no other ones are neighbours.
// CHECK-LABEL: kernel.graph @moments
// CHECK: block.cluster_reduce sum
// CHECK-NEXT: block.cluster_reduce sum
kernel.graph @moments(%x: tensor<6x256xf16>) -> tensor<6x256xf32> {
  %y = kernel.launch(%x) grid [m = 6] schedule <warps = 2, stages = 1, cluster = 4> : (tensor<6x256xf16>) -> tensor<6x256xf32> {
  ^bb0(%gx: tensor<6x256xf16>):
    %t = block.load %gx [[m], []] : tensor<6x256xf16> -> !block.tile<1x256xf16>
    %s = block.reduce sum %t dims [1] : (!block.tile<1x256xf16>) -> !block.tile<1x1xf32>
    %d = block.binary sub %t, %s : (!block.tile<1x256xf16>, !block.tile<1x1xf32>) -> !block.tile<1x256xf32>
    %q = block.unary square %t : (!block.tile<1x256xf16>) -> !block.tile<1x256xf32>
    %v = block.reduce sum %q dims [1] : (!block.tile<1x256xf32>) -> !block.tile<1x1xf32>
    %o = block.binary mul %d, %v : (!block.tile<1x256xf32>, !block.tile<1x1xf32>) -> !block.tile<1x256xf32>
    block.store %o [[m], []] : !block.tile<1x256xf32>
  }
  kernel.return %y : tensor<6x256xf32>
}

// -----

// CHECK-LABEL: kernel.graph @no_totals
// CHECK: schedule <warps = 2, stages = 1>
kernel.graph @no_totals(%x: tensor<6x256xf16>) -> tensor<6x256xf32> {
  // expected-remark @+1 {{no cluster of blocks: expected totals along what is stored, or over steps of loops in a multiple of 4}}
  %y = kernel.launch(%x) grid [m = 6] schedule <warps = 2, stages = 1, cluster = 4> : (tensor<6x256xf16>) -> tensor<6x256xf32> {
  ^bb0(%gx: tensor<6x256xf16>):
    %t = block.load %gx [[m], []] : tensor<6x256xf16> -> !block.tile<1x256xf16>
    %e = block.unary exp %t : (!block.tile<1x256xf16>) -> !block.tile<1x256xf32>
    block.store %e [[m], []] : !block.tile<1x256xf32>
  }
  kernel.return %y : tensor<6x256xf32>
}

// -----

kernel.graph @odd(%x: tensor<6x250xf16>) -> tensor<6x250xf32> {
  // expected-remark @+1 {{no cluster of blocks: expected stored tiles of a multiple of 4 along a dimension}}
  %y = kernel.launch(%x) grid [m = 6] schedule <warps = 2, stages = 1, cluster = 4> : (tensor<6x250xf16>) -> tensor<6x250xf32> {
  ^bb0(%gx: tensor<6x250xf16>):
    %t = block.load %gx [[m], []] : tensor<6x250xf16> -> !block.tile<1x250xf16>
    %s = block.reduce sum %t dims [1] : (!block.tile<1x250xf16>) -> !block.tile<1x1xf32>
    %o = block.binary mul %t, %s : (!block.tile<1x250xf16>, !block.tile<1x1xf32>) -> !block.tile<1x250xf32>
    block.store %o [[m], []] : !block.tile<1x250xf32>
  }
  kernel.return %y : tensor<6x250xf32>
}

// -----

kernel.graph @cumulated(%x: tensor<6x256xf16>) -> tensor<6x256xf32> {
  // expected-remark @+1 {{no cluster of blocks: expected loads, movements, totals and elementwise ops on what is stored, got 'block.cumulate'}}
  %y = kernel.launch(%x) grid [m = 6] schedule <warps = 2, stages = 1, cluster = 4> : (tensor<6x256xf16>) -> tensor<6x256xf32> {
  ^bb0(%gx: tensor<6x256xf16>):
    %t = block.load %gx [[m], []] : tensor<6x256xf16> -> !block.tile<1x256xf16>
    %c = block.cumulate sum %t dim 1 : (!block.tile<1x256xf16>) -> !block.tile<1x256xf32>
    %s = block.reduce sum %c dims [1] : (!block.tile<1x256xf32>) -> !block.tile<1x1xf32>
    %o = block.binary mul %c, %s : (!block.tile<1x256xf32>, !block.tile<1x1xf32>) -> !block.tile<1x256xf32>
    block.store %o [[m], []] : !block.tile<1x256xf32>
  }
  kernel.return %y : tensor<6x256xf32>
}

// -----

// A tile of which the cut would cross both dimensions.
kernel.graph @turned(%x: tensor<256x256xf16>) -> tensor<256x256xf32> {
  // expected-remark @+1 {{no cluster of blocks: expected tiles of which one dimension is cut, got one with two}}
  %y = kernel.launch(%x) grid [m = 1] schedule <warps = 2, stages = 1, cluster = 4> : (tensor<256x256xf16>) -> tensor<256x256xf32> {
  ^bb0(%gx: tensor<256x256xf16>):
    %t = block.load %gx [[m], []] : tensor<256x256xf16> -> !block.tile<256x256xf16>
    %u = block.transpose %t [1, 0] : (!block.tile<256x256xf16>) -> !block.tile<256x256xf16>
    %s = block.reduce sum %t dims [1] : (!block.tile<256x256xf16>) -> !block.tile<256x1xf32>
    %v = block.binary mul %u, %s : (!block.tile<256x256xf16>, !block.tile<256x1xf32>) -> !block.tile<256x256xf32>
    %o = block.binary add %v, %t : (!block.tile<256x256xf32>, !block.tile<256x256xf16>) -> !block.tile<256x256xf32>
    block.store %o [[m], []] : !block.tile<256x256xf32>
  }
  kernel.return %y : tensor<256x256xf32>
}

// -----

kernel.graph @many(%x: tensor<128x256xf16>) -> tensor<128x256xf32> {
  // expected-remark @+1 {{no cluster of blocks: expected totals of at most 64 numbers}}
  %y = kernel.launch(%x) grid [m = 1] schedule <warps = 2, stages = 1, cluster = 4> : (tensor<128x256xf16>) -> tensor<128x256xf32> {
  ^bb0(%gx: tensor<128x256xf16>):
    %t = block.load %gx [[m], []] : tensor<128x256xf16> -> !block.tile<128x256xf16>
    %s = block.reduce sum %t dims [1] : (!block.tile<128x256xf16>) -> !block.tile<128x1xf32>
    %o = block.binary mul %t, %s : (!block.tile<128x256xf16>, !block.tile<128x1xf32>) -> !block.tile<128x256xf32>
    block.store %o [[m], []] : !block.tile<128x256xf32>
  }
  kernel.return %y : tensor<128x256xf32>
}

// -----

// A loop computes all of what is stored in each of its steps.
kernel.graph @wide(%x: tensor<1x1024xf16>) -> tensor<1x256xf32> {
  // expected-remark @+1 {{no cluster of blocks: expected loads, movements, totals and elementwise ops on what is stored, got 'block.loop'}}
  %y = kernel.launch(%x) grid [m = 1] schedule <warps = 2, stages = 1, cluster = 4> : (tensor<1x1024xf16>) -> tensor<1x256xf32> {
  ^bb0(%gx: tensor<1x1024xf16>):
    %l = block.loop [k = 4] {
      %a = block.load %gx [[m], [k]] : tensor<1x1024xf16> -> !block.tile<1x256xf16>
      %f = block.cast %a : (!block.tile<1x256xf16>) -> !block.tile<1x256xf32>
      block.accumulate sum %f : !block.tile<1x256xf32>
    } : !block.tile<1x256xf32>
    %r = block.reduce sum %l dims [1] : (!block.tile<1x256xf32>) -> !block.tile<1x1xf32>
    %o = block.binary mul %l, %r : (!block.tile<1x256xf32>, !block.tile<1x1xf32>) -> !block.tile<1x256xf32>
    block.store %o [[m], []] : !block.tile<1x256xf32>
  }
  kernel.return %y : tensor<1x256xf32>
}

// -----

kernel.graph @placed(%x: tensor<3x32xf16>, %cache: tensor<64x96xf16>, %at: tensor<1xi64>) -> tensor<3x32xf16> {
  // expected-remark @+1 {{no cluster of blocks: expected results with memory of their own}}
  %y = kernel.launch(%x, %at) grid [m = 3] schedule <warps = 1, stages = 1, cluster = 2> places [#kernel.place<result = 0, index = 1, offset = 0, shape = [64, 3, 32], steps = [96, 32, 1], digits = [1, 1]>] : (tensor<3x32xf16>, tensor<1xi64>) -> tensor<3x32xf16> {
  ^bb0(%p: tensor<3x32xf16>, %i: tensor<1xi64>):
    %t = block.load %p [[m], []] : tensor<3x32xf16> -> !block.tile<1x32xf16>
    %s = block.reduce sum %t dims [1] : (!block.tile<1x32xf16>) -> !block.tile<1x1xf32>
    %o = block.binary mul %t, %s : (!block.tile<1x32xf16>, !block.tile<1x1xf32>) -> !block.tile<1x32xf32>
    block.store %o [[m], []] : !block.tile<1x32xf32>
  }
  kernel.return %y : tensor<3x32xf16>
}
