// RUN: mirage-opt %s | mirage-opt | FileCheck %s
// RUN: mirage-opt %s --mlir-print-op-generic | mirage-opt | FileCheck %s

// CHECK-DAG: #[[STEPS:.*]] = affine_map<(d0) -> (0, d0 + 1)>
// CHECK-DAG: #[[OTHER:.*]] = affine_map<(d0, d1) -> ((d0 * 3 + d1 - 5) floordiv 2, 8)>
// CHECK-DAG: #[[READ:.*]] = affine_map<(d0)[s0, s1] -> ((-d0 + s0) floordiv 8, (s1 + 7) floordiv 8)>

// RMSNorm and a matrix product in one kernel, the scaling after the loop.
// CHECK-LABEL: kernel.graph @rms_linear
kernel.graph @rms_linear(%x: tensor<16x4096xf16>, %w: tensor<4096x6144xf16>) -> tensor<16x6144xf16> {
  // CHECK: kernel.launch(%{{.*}}, %{{.*}}) grid [n = 96]
  %o = kernel.launch(%x, %w) grid [n = 96] : (tensor<16x4096xf16>, tensor<4096x6144xf16>) -> tensor<16x6144xf16> {
  ^bb0(%gx: tensor<16x4096xf16>, %gw: tensor<4096x6144xf16>):
    // CHECK: %[[LOOP:.*]]:2 = block.loop [k = 64] {
    %a, %s = block.loop [k = 64] {
      // CHECK: %[[XT:.*]] = block.load %{{.*}} {{\[}}[], [k]] : tensor<16x4096xf16> -> !block.tile<16x64xf16>
      %xt = block.load %gx [[], [k]] : tensor<16x4096xf16> -> !block.tile<16x64xf16>
      // CHECK: %[[WT:.*]] = block.load %{{.*}} {{\[}}[k], [n]] : tensor<4096x6144xf16> -> !block.tile<64x64xf16>
      %wt = block.load %gw [[k], [n]] : tensor<4096x6144xf16> -> !block.tile<64x64xf16>
      // CHECK: block.matmul %[[XT]], %[[WT]] : (!block.tile<16x64xf16>, !block.tile<64x64xf16>) -> !block.tile<16x64xf32>
      %p = block.matmul %xt, %wt : (!block.tile<16x64xf16>, !block.tile<64x64xf16>) -> !block.tile<16x64xf32>
      // CHECK: block.unary square %[[XT]] : (!block.tile<16x64xf16>) -> !block.tile<16x64xf32>
      %q = block.unary square %xt : (!block.tile<16x64xf16>) -> !block.tile<16x64xf32>
      // CHECK: block.reduce sum %{{.*}} dims [1] : (!block.tile<16x64xf32>) -> !block.tile<16x1xf32>
      %r = block.reduce sum %q dims [1] : (!block.tile<16x64xf32>) -> !block.tile<16x1xf32>
      // CHECK: block.accumulate sum %{{.*}}, sum %{{.*}} : !block.tile<16x64xf32>, !block.tile<16x1xf32>
      block.accumulate sum %p, sum %r : !block.tile<16x64xf32>, !block.tile<16x1xf32>
    // CHECK: } : !block.tile<16x64xf32>, !block.tile<16x1xf32>
    } : !block.tile<16x64xf32>, !block.tile<16x1xf32>
    // CHECK: %[[N:.*]] = block.constant 2.441406250e-04 : !block.tile<f32>
    %n = block.constant 2.44140625e-4 : !block.tile<f32>
    // CHECK: block.binary mul %[[LOOP]]#1, %[[N]] : (!block.tile<16x1xf32>, !block.tile<f32>) -> !block.tile<16x1xf32>
    %m = block.binary mul %s, %n : (!block.tile<16x1xf32>, !block.tile<f32>) -> !block.tile<16x1xf32>
    %i = block.unary rsqrt %m : (!block.tile<16x1xf32>) -> !block.tile<16x1xf32>
    %y = block.binary mul %a, %i : (!block.tile<16x64xf32>, !block.tile<16x1xf32>) -> !block.tile<16x64xf32>
    // CHECK: block.store %{{.*}} {{\[}}[], [n]] : !block.tile<16x64xf32>
    block.store %y [[], [n]] : !block.tile<16x64xf32>
  }
  kernel.return %o : tensor<16x6144xf16>
}

// Split-KV attention partials with a running maximum, keys masked at the end.
// CHECK-LABEL: kernel.graph @attention_partials
kernel.graph @attention_partials(%q: tensor<64x64xf16>, %k: tensor<64x1000xf16>, %v: tensor<1000x64xf16>)
    -> (tensor<4x64x64xf32>, tensor<4x64x1xf32>, tensor<4x64x1xf32>) {
  %o:3 = kernel.launch(%q, %k, %v) grid [s = 4]
      : (tensor<64x64xf16>, tensor<64x1000xf16>, tensor<1000x64xf16>)
      -> (tensor<4x64x64xf32>, tensor<4x64x1xf32>, tensor<4x64x1xf32>) {
  ^bb0(%gq: tensor<64x64xf16>, %gk: tensor<64x1000xf16>, %gv: tensor<1000x64xf16>):
    %qt = block.load %gq [[], []] : tensor<64x64xf16> -> !block.tile<64x64xf16>
    %acc, %sum, %max = block.loop [t = 4] {
      // CHECK: block.load %{{.*}} {{\[}}[], [s, t]] : tensor<64x1000xf16> -> !block.tile<64x64xf16>
      %kt = block.load %gk [[], [s, t]] : tensor<64x1000xf16> -> !block.tile<64x64xf16>
      %vt = block.load %gv [[s, t], []] : tensor<1000x64xf16> -> !block.tile<64x64xf16>
      %sc = block.matmul %qt, %kt : (!block.tile<64x64xf16>, !block.tile<64x64xf16>) -> !block.tile<64x64xf32>
      // CHECK: block.mask %{{.*}} dim 1 [s, t] extent 1000 fill -1.000000e+30 : !block.tile<64x64xf32>
      %sm = block.mask %sc dim 1 [s, t] extent 1000 fill -1.0e+30 : !block.tile<64x64xf32>
      %rm = block.reduce max %sm dims [1] : (!block.tile<64x64xf32>) -> !block.tile<64x1xf32>
      // CHECK: %[[M:.*]] = block.running_max %{{.*}} : !block.tile<64x1xf32>
      %m = block.running_max %rm : !block.tile<64x1xf32>
      // CHECK: block.broadcast %[[M]] : (!block.tile<64x1xf32>) -> !block.tile<64x64xf32>
      %mb = block.broadcast %m : (!block.tile<64x1xf32>) -> !block.tile<64x64xf32>
      %d = block.binary sub %sm, %mb : (!block.tile<64x64xf32>, !block.tile<64x64xf32>) -> !block.tile<64x64xf32>
      %e = block.unary exp %d : (!block.tile<64x64xf32>) -> !block.tile<64x64xf32>
      // CHECK: block.cast %{{.*}} : (!block.tile<64x64xf32>) -> !block.tile<64x64xf16>
      %eh = block.cast %e : (!block.tile<64x64xf32>) -> !block.tile<64x64xf16>
      %pv = block.matmul %eh, %vt : (!block.tile<64x64xf16>, !block.tile<64x64xf16>) -> !block.tile<64x64xf32>
      %l = block.reduce sum %e dims [1] : (!block.tile<64x64xf32>) -> !block.tile<64x1xf32>
      // CHECK: block.accumulate sum %{{.*}} rescale %[[M]], sum %{{.*}} rescale %[[M]], last %[[M]] : !block.tile<64x64xf32>, !block.tile<64x1xf32>, !block.tile<64x1xf32> rescale : !block.tile<64x1xf32>, !block.tile<64x1xf32>
      block.accumulate sum %pv rescale %m, sum %l rescale %m, last %m
          : !block.tile<64x64xf32>, !block.tile<64x1xf32>, !block.tile<64x1xf32>
          rescale : !block.tile<64x1xf32>, !block.tile<64x1xf32>
    } : !block.tile<64x64xf32>, !block.tile<64x1xf32>, !block.tile<64x1xf32>
    // CHECK: block.reshape %{{.*}} : (!block.tile<64x64xf32>) -> !block.tile<1x64x64xf32>
    %acc3 = block.reshape %acc : (!block.tile<64x64xf32>) -> !block.tile<1x64x64xf32>
    %sum3 = block.reshape %sum : (!block.tile<64x1xf32>) -> !block.tile<1x64x1xf32>
    %max3 = block.reshape %max : (!block.tile<64x1xf32>) -> !block.tile<1x64x1xf32>
    // CHECK: block.store %{{.*}} {{\[}}[s], [], []], %{{.*}} {{\[}}[s], [], []], %{{.*}} {{\[}}[s], [], []] :
    block.store %acc3 [[s], [], []], %sum3 [[s], [], []], %max3 [[s], [], []]
        : !block.tile<1x64x64xf32>, !block.tile<1x64x1xf32>, !block.tile<1x64x1xf32>
  }
  kernel.return %o#0, %o#1, %o#2 : tensor<4x64x64xf32>, tensor<4x64x1xf32>, tensor<4x64x1xf32>
}

// Loops nest; a tile may be transposed; a maximum may be accumulated.
// CHECK-LABEL: kernel.graph @nested
kernel.graph @nested(%x: tensor<32x32xf32>) -> tensor<32x1xf32> {
  %o = kernel.launch(%x) grid [] : (tensor<32x32xf32>) -> tensor<32x1xf32> {
  ^bb0(%gx: tensor<32x32xf32>):
    // CHECK: block.loop [i = 2] {
    %a = block.loop [i = 2] {
      // CHECK: block.loop [j = 4] {
      %b = block.loop [j = 4] {
        %t = block.load %gx [[i, j], []] : tensor<32x32xf32> -> !block.tile<4x32xf32>
        // CHECK: block.transpose %{{.*}} [1, 0] : (!block.tile<4x32xf32>) -> !block.tile<32x4xf32>
        %u = block.transpose %t [1, 0] : (!block.tile<4x32xf32>) -> !block.tile<32x4xf32>
        %m = block.reduce max %u dims [1] : (!block.tile<32x4xf32>) -> !block.tile<32x1xf32>
        // CHECK: block.accumulate max %{{.*}} : !block.tile<32x1xf32>
        block.accumulate max %m : !block.tile<32x1xf32>
      } : !block.tile<32x1xf32>
      block.accumulate max %b : !block.tile<32x1xf32>
    } : !block.tile<32x1xf32>
    block.store %a [[], []] : !block.tile<32x1xf32>
  }
  kernel.return %o : tensor<32x1xf32>
}

// CHECK-LABEL: kernel.graph @so_far
kernel.graph @so_far(%x: tensor<4x64xf16>) -> tensor<4x64xf32> {
  %o = kernel.launch(%x) grid [b = 2] : (tensor<4x64xf16>) -> tensor<4x64xf32> {
  ^bb0(%gx: tensor<4x64xf16>):
    %t = block.load %gx [[b], []] : tensor<4x64xf16> -> !block.tile<2x64xf16>
    // CHECK: block.cumulate sum %{{.*}} dim 1 : (!block.tile<2x64xf16>) -> !block.tile<2x64xf32>
    %c = block.cumulate sum %t dim 1 : (!block.tile<2x64xf16>) -> !block.tile<2x64xf32>
    // CHECK: block.cumulate max exclusive %{{.*}} dim 0 : (!block.tile<2x64xf32>) -> !block.tile<2x64xf32>
    %d = block.cumulate max exclusive %c dim 0 : (!block.tile<2x64xf32>) -> !block.tile<2x64xf32>
    // CHECK: block.argsort descending %{{.*}} dim 1 : (!block.tile<2x64xf32>) -> !block.tile<2x64xi64>
    %p = block.argsort descending %c dim 1 : (!block.tile<2x64xf32>) -> !block.tile<2x64xi64>
    // CHECK: block.cumulate prod %{{.*}} dim 1 : (!block.tile<2x64xf32>) -> !block.tile<2x64xf32>
    %e = block.cumulate prod %c dim 1 : (!block.tile<2x64xf32>) -> !block.tile<2x64xf32>
    block.store %d [[b], []] : !block.tile<2x64xf32>
  }
  kernel.return %o : tensor<4x64xf32>
}

// A loop that takes a part of its steps, by the block's position along axes of the grid.
// CHECK-LABEL: kernel.graph @steps
kernel.graph @steps(%x: tensor<4x64x32xf32>) -> tensor<4x8x32xf32> {
  %o = kernel.launch(%x) grid [b = 4, m = 8] : (tensor<4x64x32xf32>) -> tensor<4x8x32xf32> {
  ^bb0(%gx: tensor<4x64x32xf32>):
    // CHECK: block.loop [k = 8] steps #[[STEPS]] of [m] {
    %a = block.loop [k = 8] steps affine_map<(d0) -> (0, d0 + 1)> of [m] {
      %t = block.load %gx [[b], [k], []] : tensor<4x64x32xf32> -> !block.tile<1x8x32xf32>
      %r = block.reduce sum %t dims [1] : (!block.tile<1x8x32xf32>) -> !block.tile<1x1x32xf32>
      block.accumulate sum %r : !block.tile<1x1x32xf32>
    } : !block.tile<1x1x32xf32>
    // CHECK: block.loop [j = 8] steps #[[OTHER]] of [b, m] {
    %c = block.loop [j = 8] steps affine_map<(d0, d1) -> ((d0 * 3 + d1 - 5) floordiv 2, 8)> of [b, m] {
      %t = block.load %gx [[b], [j], []] : tensor<4x64x32xf32> -> !block.tile<1x8x32xf32>
      %r = block.reduce sum %t dims [1] : (!block.tile<1x8x32xf32>) -> !block.tile<1x1x32xf32>
      block.accumulate sum %r : !block.tile<1x1x32xf32>
    } : !block.tile<1x1x32xf32>
    %d = block.binary add %a, %c : (!block.tile<1x1x32xf32>, !block.tile<1x1x32xf32>) -> !block.tile<1x1x32xf32>
    block.store %d [[b], [m], []] : !block.tile<1x1x32xf32>
  }
  kernel.return %o : tensor<4x8x32xf32>
}

// A loop whose steps are known when the block runs: by the length of its sequence, or the greatest of two.
// CHECK-LABEL: kernel.graph @read_steps
kernel.graph @read_steps(%x: tensor<4x64xf32>, %n: tensor<4x1xi64>, %p: tensor<i32>) -> tensor<4x8xf32> {
  %o = kernel.launch(%x, %n, %p) grid [b = 2] : (tensor<4x64xf32>, tensor<4x1xi64>, tensor<i32>) -> tensor<4x8xf32> {
  ^bb0(%gx: tensor<4x64xf32>, %gn: tensor<4x1xi64>, %gp: tensor<i32>):
    // CHECK: %[[N:.*]] = block.scalar max %{{.*}} {{\[}}[b], []] of [2, 1] within[0, 64] : tensor<4x1xi64>
    %l = block.scalar max %gn [[b], []] of [2, 1] within [0, 64] : tensor<4x1xi64>
    // CHECK: %[[P:.*]] = block.scalar min %{{.*}} [] of [] within[-1, 64] : tensor<i32>
    %f = block.scalar min %gp [] of [] within [-1, 64] : tensor<i32>
    // CHECK: block.loop [k = 8] steps #[[READ]] of [b] with(%[[P]], %[[N]]) {
    %a = block.loop [k = 8] steps affine_map<(d0)[s0, s1] -> ((s0 - d0) floordiv 8, (s1 + 7) floordiv 8)> of [b] with (%f, %l) {
      %t = block.load %gx [[b], [k]] : tensor<4x64xf32> -> !block.tile<2x8xf32>
      block.accumulate sum %t : !block.tile<2x8xf32>
    } : !block.tile<2x8xf32>
    block.store %a [[b], []] : !block.tile<2x8xf32>
  }
  kernel.return %o : tensor<4x8xf32>
}

// Embedding rows and a causal mask without a tensor of either.
// CHECK-LABEL: kernel.graph @positions
kernel.graph @positions(%table: tensor<1000x64xf16>, %ids: tensor<2x16xi64>, %seen: tensor<16x16xi1>)
    -> (tensor<2x16x64xf16>, tensor<16x16xf32>) {
  %x, %m = kernel.launch(%table, %ids, %seen) grid [m = 2] : (tensor<1000x64xf16>, tensor<2x16xi64>, tensor<16x16xi1>) -> (tensor<2x16x64xf16>, tensor<16x16xf32>) {
  ^bb0(%gt: tensor<1000x64xf16>, %gi: tensor<2x16xi64>, %gs: tensor<16x16xi1>):
    // CHECK: block.gather %{{.*}}, %{{.*}} {{\[}}[], [m], []] : tensor<1000x64xf16>, tensor<2x16xi64> -> !block.tile<2x8x64xf16>
    %r = block.gather %gt, %gi [[], [m], []] : tensor<1000x64xf16>, tensor<2x16xi64> -> !block.tile<2x8x64xf16>
    // CHECK: block.gather %{{.*}}, %{{.*}} {{\[}}[], [m], []] from_end : tensor<1000x64xf16>
    %from_end = block.gather %gt, %gi [[], [m], []] from_end : tensor<1000x64xf16>, tensor<2x16xi64> -> !block.tile<2x8x64xf16>
    // CHECK: block.iota dim 0 [m] extent 16 : !block.tile<8x1xf32>
    %i = block.iota dim 0 [m] extent 16 : !block.tile<8x1xf32>
    // CHECK: block.iota dim 1 [] extent 16 : !block.tile<1x16xf32>
    %j = block.iota dim 1 [] extent 16 : !block.tile<1x16xf32>
    // CHECK: block.binary le %{{.*}}, %{{.*}} : (!block.tile<1x16xf32>, !block.tile<8x1xf32>) -> !block.tile<8x16xf32>
    %le = block.binary le %j, %i : (!block.tile<1x16xf32>, !block.tile<8x1xf32>) -> !block.tile<8x16xf32>
    // CHECK: block.load %{{.*}} {{\[}}[m], []] : tensor<16x16xi1> -> !block.tile<8x16xf32>
    %s = block.load %gs [[m], []] : tensor<16x16xi1> -> !block.tile<8x16xf32>
    %b = block.binary and %le, %s : (!block.tile<8x16xf32>, !block.tile<8x16xf32>) -> !block.tile<8x16xf32>
    block.store %r [[], [m], []], %b [[m], []] : !block.tile<2x8x64xf16>, !block.tile<8x16xf32>
  }
  kernel.return %x, %m : tensor<2x16x64xf16>, tensor<16x16xf32>
}

// CHECK-LABEL: kernel.graph @eight_bits
kernel.graph @eight_bits(%x: tensor<16x64xf8E5M2>) -> tensor<16x64xf8E4M3FN> {
  %y = kernel.launch(%x) grid [m = 2] : (tensor<16x64xf8E5M2>) -> tensor<16x64xf8E4M3FN> {
  ^bb0(%gx: tensor<16x64xf8E5M2>):
    // CHECK: block.load %{{.*}} {{\[}}[m], []] : tensor<16x64xf8E5M2> -> !block.tile<8x64xf16>
    %t = block.load %gx [[m], []] : tensor<16x64xf8E5M2> -> !block.tile<8x64xf16>
    // CHECK: block.unary round_e4m3 %{{.*}} : (!block.tile<8x64xf16>) -> !block.tile<8x64xf32>
    %r = block.unary round_e4m3 %t : (!block.tile<8x64xf16>) -> !block.tile<8x64xf32>
    block.store %r [[m], []] : !block.tile<8x64xf32>
  }
  kernel.return %y : tensor<16x64xf8E4M3FN>
}

// Exact arithmetic on integers where a tile of its result is needed.
// CHECK-LABEL: kernel.graph @integers
kernel.graph @integers(%a: tensor<32xi64>, %b: tensor<16xi32>) -> (tensor<32x16xf32>, tensor<32x16xi32>) {
  %m, %n = kernel.launch(%a, %b) grid [n = 4] : (tensor<32xi64>, tensor<16xi32>) -> (tensor<32x16xf32>, tensor<32x16xi32>) {
  ^bb0(%ga: tensor<32xi64>, %gb: tensor<16xi32>):
    // CHECK: block.integers %{{.*}}, %{{.*}} {{\[}}[n], []] of [32, 16] ["load 0", "load 1", "le 1 0 : i1"] : (tensor<32xi64>, tensor<16xi32>) -> !block.tile<8x16xf32>
    %t = block.integers %ga, %gb [[n], []] of [32, 16] ["load 0", "load 1", "le 1 0 : i1"] : (tensor<32xi64>, tensor<16xi32>) -> !block.tile<8x16xf32>
    // CHECK: block.integers %{{.*}} {{\[}}[n], []] of [32, 16] ["load 1", "position 0 : i64", "add 0 1 : i32"] : (tensor<16xi32>) -> !block.tile<8x16xi64>
    %i = block.integers %gb [[n], []] of [32, 16] ["load 1", "position 0 : i64", "add 0 1 : i32"] : (tensor<16xi32>) -> !block.tile<8x16xi64>
    block.store %t [[n], []], %i [[n], []] : !block.tile<8x16xf32>, !block.tile<8x16xi64>
  }
  kernel.return %m, %n : tensor<32x16xf32>, tensor<32x16xi32>
}

// Totals of exact integers, and a formula of them.
// CHECK-LABEL: kernel.graph @integer_totals
kernel.graph @integer_totals(%a: tensor<32x16xi64>) -> (tensor<32x1xi64>, tensor<32x4xi32>) {
  %s, %c = kernel.launch(%a) grid [n = 4] : (tensor<32x16xi64>) -> (tensor<32x1xi64>, tensor<32x4xi32>) {
  ^bb0(%ga: tensor<32x16xi64>):
    // CHECK: block.accumulate max %{{.*}} : !block.tile<8x4xi64>
    %t = block.loop [k = 4] {
      %x = block.load %ga [[n], [k]] : tensor<32x16xi64> -> !block.tile<8x4xi64>
      block.accumulate max %x : !block.tile<8x4xi64>
    } : !block.tile<8x4xi64>
    // CHECK: block.reduce max %{{.*}} dims [1] : (!block.tile<8x4xi64>) -> !block.tile<8x1xi64>
    %m = block.reduce max %t dims [1] : (!block.tile<8x4xi64>) -> !block.tile<8x1xi64>
    // CHECK: block.cumulate prod %{{.*}} dim 1 : (!block.tile<8x4xi64>) -> !block.tile<8x4xi64>
    %p = block.cumulate prod %t dim 1 : (!block.tile<8x4xi64>) -> !block.tile<8x4xi64>
    // CHECK: block.map_integers %{{.*}}, %{{.*}} ["load", "load", "sub 0 1 : i32"] : (!block.tile<8x4xi64>, !block.tile<8x1xi64>) -> !block.tile<8x4xi64>
    %d = block.map_integers %p, %m ["load", "load", "sub 0 1 : i32"] : (!block.tile<8x4xi64>, !block.tile<8x1xi64>) -> !block.tile<8x4xi64>
    block.store %m [[n], []], %d [[n], []] : !block.tile<8x1xi64>, !block.tile<8x4xi64>
  }
  kernel.return %s, %c : tensor<32x1xi64>, tensor<32x4xi32>
}

// CHECK-LABEL: kernel.graph @shared_rows
kernel.graph @shared_rows(%x: tensor<2x16xf32>) -> tensor<2x16xf32> {
  %y = kernel.launch(%x) grid [m = 2, c = 4] schedule <warps = 4, stages = 1, cluster = 4> : (tensor<2x16xf32>) -> tensor<2x16xf32> {
  ^bb0(%gx: tensor<2x16xf32>):
    %t = block.load %gx [[m], [c]] : tensor<2x16xf32> -> !block.tile<1x4xf32>
    %m = block.reduce max %t dims [1] : (!block.tile<1x4xf32>) -> !block.tile<1x1xf32>
    // CHECK: block.cluster_reduce max %[[M:.*]] along [c] : !block.tile<1x1xf32>
    %n = block.cluster_reduce max %m along [c] : !block.tile<1x1xf32>
    %d = block.binary sub %t, %n : (!block.tile<1x4xf32>, !block.tile<1x1xf32>) -> !block.tile<1x4xf32>
    %s = block.reduce sum %d dims [1] : (!block.tile<1x4xf32>) -> !block.tile<1x1xf32>
    // CHECK: block.cluster_reduce sum %{{.*}} rescale %[[M]] along [c] : !block.tile<1x1xf32> rescale : !block.tile<1x1xf32>
    %l = block.cluster_reduce sum %s rescale %m along [c] : !block.tile<1x1xf32> rescale : !block.tile<1x1xf32>
    %o = block.binary mul %d, %l : (!block.tile<1x4xf32>, !block.tile<1x1xf32>) -> !block.tile<1x4xf32>
    block.store %o [[m], [c]] : !block.tile<1x4xf32>
  }
  kernel.return %y : tensor<2x16xf32>
}
