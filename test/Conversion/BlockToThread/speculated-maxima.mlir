// A step uses the maximum of the previous one, and is repeated if its row sums are large.
// RUN: mirage-opt %s --mirage-lower-block --split-input-file | FileCheck %s
// RUN: %execute %s

// CHECK-LABEL: gpu.func @attention_0
// CHECK: thread.reduce max
// CHECK: scf.for
// CHECK: %[[S:.*]] = thread.wgmma_wait 1
// The turn passes before anything is computed.
// CHECK: thread.mbarrier_arrive
// CHECK-NOT: thread.reduce max
// CHECK: thread.unary exp
// CHECK: %[[SUM:.*]] = thread.reduce sum
// CHECK: %[[AGAIN:.*]] = thread.exceeds %[[SUM]], 8.192000e+03
// CHECK: scf.if %[[AGAIN]]
// CHECK: thread.reduce max %[[S]]
// CHECK: thread.binary max
// CHECK: thread.unary exp
// CHECK: thread.reduce sum
// CHECK: } else {
// CHECK-NEXT: scf.yield %{{.*}}, %{{.*}}, %{{.*}}, %[[SUM]]
// CHECK: thread.wgmma_wait 0
kernel.graph @attention(%q: tensor<128x64xf16>, %k: tensor<512x64xf16>, %v: tensor<512x64xf16>) -> tensor<128x64xf16> attributes {form = #kernel.form<selected>} {
  %o = kernel.launch(%q, %k, %v) grid [m = 1] schedule <warps = 8, stages = 2, engine = warpgroup> : (tensor<128x64xf16>, tensor<512x64xf16>, tensor<512x64xf16>) -> tensor<128x64xf16> {
  ^bb0(%gq: tensor<128x64xf16>, %gk: tensor<512x64xf16>, %gv: tensor<512x64xf16>):
    %tq = block.load %gq [[m], []] : tensor<128x64xf16> -> !block.tile<128x64xf16>
    %a, %b = block.loop [n = 4] {
      %tk = block.load %gk [[n], []] : tensor<512x64xf16> -> !block.tile<128x64xf16>
      %kt = block.transpose %tk [1, 0] : (!block.tile<128x64xf16>) -> !block.tile<64x128xf16>
      %s = block.matmul %tq, %kt : (!block.tile<128x64xf16>, !block.tile<64x128xf16>) -> !block.tile<128x128xf32>
      %r = block.reduce max %s dims [1] : (!block.tile<128x128xf32>) -> !block.tile<128x1xf32>
      %m = block.running_max %r : !block.tile<128x1xf32>
      %d = block.binary sub %s, %m : (!block.tile<128x128xf32>, !block.tile<128x1xf32>) -> !block.tile<128x128xf32>
      %e = block.unary exp %d : (!block.tile<128x128xf32>) -> !block.tile<128x128xf32>
      %h = block.cast %e : (!block.tile<128x128xf32>) -> !block.tile<128x128xf16>
      %tv = block.load %gv [[n], []] : tensor<512x64xf16> -> !block.tile<128x64xf16>
      %p = block.matmul %h, %tv : (!block.tile<128x128xf16>, !block.tile<128x64xf16>) -> !block.tile<128x64xf32>
      %z = block.reduce sum %e dims [1] : (!block.tile<128x128xf32>) -> !block.tile<128x1xf32>
      block.accumulate sum %p rescale %m, sum %z rescale %m : !block.tile<128x64xf32>, !block.tile<128x1xf32> rescale : !block.tile<128x1xf32>, !block.tile<128x1xf32>
    } : !block.tile<128x64xf32>, !block.tile<128x1xf32>
    %w = block.binary div %a, %b : (!block.tile<128x64xf32>, !block.tile<128x1xf32>) -> !block.tile<128x64xf32>
    block.store %w [[m], []] : !block.tile<128x64xf32>
  }
  kernel.return %o : tensor<128x64xf16>
}

// -----

// The sums themselves are results: they are those of the maximum, which is computed alongside the
// exponentials.
// CHECK-LABEL: gpu.func @parts_0
// CHECK: scf.for %{{[a-z0-9]+}} = %{{[a-z0-9]+}} to %{{[a-z0-9]+}} step %{{[a-z0-9]+}} iter_args(%{{[a-z0-9]+}} = %{{[0-9]+}}, %{{[a-z0-9]+}} = %{{[0-9]+}}, %[[MOST:[a-z0-9]+]] = %{{[0-9]+}}, %[[HELD:[a-z0-9]+]] = %{{[0-9]+}}
// CHECK: thread.wgmma_wait 1
// CHECK: thread.broadcast %[[HELD]]
// CHECK: thread.unary exp
// CHECK: %[[MAX:.*]] = thread.reduce max
// CHECK: %[[NOW:.*]] = thread.binary max %[[MOST]], %[[MAX]]
// CHECK: %[[AGAIN:.*]] = thread.exceeds
// CHECK: arith.select %[[AGAIN]], %[[NOW]], %[[HELD]]
// CHECK: scf.if %[[AGAIN]]
// CHECK-NOT: thread.reduce max
// CHECK: thread.broadcast %[[NOW]]
// CHECK: thread.unary exp
// CHECK: gpu.return
kernel.graph @parts(%q: tensor<128x64xf16>, %k: tensor<512x64xf16>, %v: tensor<512x64xf16>) -> (tensor<128x64xf32>, tensor<128x1xf32>, tensor<128x1xf32>) attributes {form = #kernel.form<selected>} {
  %o:3 = kernel.launch(%q, %k, %v) grid [m = 1] schedule <warps = 8, stages = 2, engine = warpgroup> : (tensor<128x64xf16>, tensor<512x64xf16>, tensor<512x64xf16>) -> (tensor<128x64xf32>, tensor<128x1xf32>, tensor<128x1xf32>) {
  ^bb0(%gq: tensor<128x64xf16>, %gk: tensor<512x64xf16>, %gv: tensor<512x64xf16>):
    %tq = block.load %gq [[m], []] : tensor<128x64xf16> -> !block.tile<128x64xf16>
    %a, %b, %c = block.loop [n = 4] {
      %tk = block.load %gk [[n], []] : tensor<512x64xf16> -> !block.tile<128x64xf16>
      %kt = block.transpose %tk [1, 0] : (!block.tile<128x64xf16>) -> !block.tile<64x128xf16>
      %s = block.matmul %tq, %kt : (!block.tile<128x64xf16>, !block.tile<64x128xf16>) -> !block.tile<128x128xf32>
      %r = block.reduce max %s dims [1] : (!block.tile<128x128xf32>) -> !block.tile<128x1xf32>
      %m = block.running_max %r : !block.tile<128x1xf32>
      %d = block.binary sub %s, %m : (!block.tile<128x128xf32>, !block.tile<128x1xf32>) -> !block.tile<128x128xf32>
      %e = block.unary exp %d : (!block.tile<128x128xf32>) -> !block.tile<128x128xf32>
      %h = block.cast %e : (!block.tile<128x128xf32>) -> !block.tile<128x128xf16>
      %tv = block.load %gv [[n], []] : tensor<512x64xf16> -> !block.tile<128x64xf16>
      %p = block.matmul %h, %tv : (!block.tile<128x128xf16>, !block.tile<128x64xf16>) -> !block.tile<128x64xf32>
      %z = block.reduce sum %e dims [1] : (!block.tile<128x128xf32>) -> !block.tile<128x1xf32>
      block.accumulate sum %p rescale %m, sum %z rescale %m, last %m : !block.tile<128x64xf32>, !block.tile<128x1xf32>, !block.tile<128x1xf32> rescale : !block.tile<128x1xf32>, !block.tile<128x1xf32>
    } : !block.tile<128x64xf32>, !block.tile<128x1xf32>, !block.tile<128x1xf32>
    block.store %a [[m], []], %b [[m], []], %c [[m], []] : !block.tile<128x64xf32>, !block.tile<128x1xf32>, !block.tile<128x1xf32>
  }
  kernel.return %o#0, %o#1, %o#2 : tensor<128x64xf32>, tensor<128x1xf32>, tensor<128x1xf32>
}
