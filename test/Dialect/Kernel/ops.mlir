// RUN: mirage-opt %s | mirage-opt | FileCheck %s
// RUN: mirage-opt %s --mlir-print-op-generic | mirage-opt | FileCheck %s

// CHECK-LABEL: kernel.graph @primitives
// CHECK-SAME:    (%[[X:.*]]: tensor<4x8xf16>, %[[W:.*]]: tensor<8x6xf16>) -> tensor<4x6xf16>
// CHECK-SAME:    attributes {form = #kernel.form<reference>}
kernel.graph @primitives(%x: tensor<4x8xf16>, %w: tensor<8x6xf16>) -> tensor<4x6xf16>
    attributes {form = #kernel.form<reference>} {
  // CHECK: %[[C:.*]] = kernel.constant 2.500000e-01 : tensor<f16>
  %c = kernel.constant 0.25 : tensor<f16>
  // CHECK: kernel.unary silu %[[X]] : (tensor<4x8xf16>) -> tensor<4x8xf16>
  %0 = kernel.unary silu %x : (tensor<4x8xf16>) -> tensor<4x8xf16>
  // CHECK: kernel.binary mul %{{.*}}, %[[C]] : (tensor<4x8xf16>, tensor<f16>) -> tensor<4x8xf16>
  %1 = kernel.binary mul %0, %c : (tensor<4x8xf16>, tensor<f16>) -> tensor<4x8xf16>
  // CHECK: kernel.cumulate sum exclusive %{{.*}} dim 0 : (tensor<4x8xf16>) -> tensor<4x8xf16>
  %so_far = kernel.cumulate sum exclusive %1 dim 0 : (tensor<4x8xf16>) -> tensor<4x8xf16>
  // CHECK: kernel.cumulate prod reversed %{{.*}} dim 1 : (tensor<4x8xf16>) -> tensor<4x8xf16>
  %factors = kernel.cumulate prod reversed %1 dim 1 : (tensor<4x8xf16>) -> tensor<4x8xf16>
  // CHECK: kernel.reduce sum %{{.*}} dims [1] : (tensor<4x8xf16>) -> tensor<4x1xf16>
  %2 = kernel.reduce sum %1 dims [1] : (tensor<4x8xf16>) -> tensor<4x1xf16>
  // CHECK: kernel.broadcast %{{.*}} : (tensor<4x1xf16>) -> tensor<4x8xf16>
  %3 = kernel.broadcast %2 : (tensor<4x1xf16>) -> tensor<4x8xf16>
  // CHECK: kernel.matmul %{{.*}}, %[[W]] : (tensor<4x8xf16>, tensor<8x6xf16>) -> tensor<4x6xf16>
  %4 = kernel.matmul %3, %w : (tensor<4x8xf16>, tensor<8x6xf16>) -> tensor<4x6xf16>
  // CHECK: kernel.return
  kernel.return %4 : tensor<4x6xf16>
}

// CHECK-LABEL: kernel.graph @views
kernel.graph @views(%x: tensor<4x8xf32>) -> tensor<2x18xbf16> {
  // CHECK: kernel.transpose %{{.*}} [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %0 = kernel.transpose %x [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
  // CHECK: kernel.reshape %{{.*}} : (tensor<8x4xf32>) -> tensor<2x16xf32>
  %1 = kernel.reshape %0 : (tensor<8x4xf32>) -> tensor<2x16xf32>
  // CHECK: kernel.slice %{{.*}} [0, 3] : (tensor<2x16xf32>) -> tensor<2x2xf32>
  %2 = kernel.slice %1 [0, 3] : (tensor<2x16xf32>) -> tensor<2x2xf32>
  // CHECK: kernel.concat %{{.*}}, %{{.*}} dim 1 : (tensor<2x16xf32>, tensor<2x2xf32>) -> tensor<2x18xf32>
  %3 = kernel.concat %1, %2 dim 1 : (tensor<2x16xf32>, tensor<2x2xf32>) -> tensor<2x18xf32>
  // CHECK: kernel.cast %{{.*}} : (tensor<2x18xf32>) -> tensor<2x18xbf16>
  %4 = kernel.cast %3 : (tensor<2x18xf32>) -> tensor<2x18xbf16>
  kernel.return %4 : tensor<2x18xbf16>
}

// CHECK-LABEL: kernel.graph @whole_numbers
kernel.graph @whole_numbers(%x: tensor<4xf32>) -> tensor<4xi32> {
  // CHECK: kernel.cast %{{.*}} whole : (tensor<4xf32>) -> tensor<4xi64>
  %0 = kernel.cast %x whole : (tensor<4xf32>) -> tensor<4xi64>
  // CHECK: kernel.cast %{{.*}} whole : (tensor<4xi64>) -> tensor<4xi32>
  %1 = kernel.cast %0 whole : (tensor<4xi64>) -> tensor<4xi32>
  kernel.return %1 : tensor<4xi32>
}

// CHECK-LABEL: kernel.graph @composites
kernel.graph @composites(%x: tensor<4x8xf16>, %g: tensor<8xf16>) -> tensor<4x8xf16> {
  // CHECK: kernel.softmax %{{.*}} dim 1 : (tensor<4x8xf16>) -> tensor<4x8xf16>
  %0 = kernel.softmax %x dim 1 : (tensor<4x8xf16>) -> tensor<4x8xf16>
  // CHECK: kernel.rms_norm %{{.*}}, %{{.*}} eps 1.000000e-06 dims 1 : (tensor<4x8xf16>, tensor<8xf16>) -> tensor<4x8xf16>
  %1 = kernel.rms_norm %0, %g eps 1.0e-6 dims 1 : (tensor<4x8xf16>, tensor<8xf16>) -> tensor<4x8xf16>
  // CHECK: kernel.layer_norm %{{.*}}, %{{.*}}, %{{.*}} eps 1.000000e-05 dims 1
  %2 = kernel.layer_norm %1, %g, %g eps 1.0e-5 dims 1
      : (tensor<4x8xf16>, tensor<8xf16>, tensor<8xf16>) -> tensor<4x8xf16>
  // CHECK: kernel.all_reduce sum %{{.*}} over 8 : (tensor<4x8xf16>) -> tensor<4x8xf16>
  %3 = kernel.all_reduce sum %2 over 8 : (tensor<4x8xf16>) -> tensor<4x8xf16>
  // CHECK: kernel.external "aten.cumsum"(%{{.*}}) {dim = 1 : i64} : (tensor<4x8xf16>) -> tensor<4x8xf16>
  %4 = kernel.external "aten.cumsum"(%3) {dim = 1 : i64} : (tensor<4x8xf16>) -> tensor<4x8xf16>
  kernel.return %4 : tensor<4x8xf16>
}

// CHECK-LABEL: kernel.graph @constants
kernel.graph @constants() -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) {
  // CHECK: kernel.constant 3.3333333333333331e-01 : tensor<f32>
  %0 = kernel.constant 0.3333333333333333 : tensor<f32>
  // CHECK: kernel.constant -inf : tensor<f32>
  %1 = kernel.constant -inf : tensor<f32>
  // CHECK: kernel.constant nan : tensor<f32>
  %2 = kernel.constant nan : tensor<f32>
  // CHECK: kernel.constant 1.000000e-01 {exact = "3602879701896397/36028797018963968"} : tensor<f32>
  %3 = kernel.constant 0.1 {exact = "3602879701896397/36028797018963968"} : tensor<f32>
  kernel.return %0, %1, %2, %3 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
}

// CHECK-LABEL: kernel.graph @alternatives
kernel.graph @alternatives(%x: tensor<8xf32>) -> tensor<8xf32> attributes {form = #kernel.form<verified>} {
  // CHECK: kernel.alternatives(%{{.*}}) verdicts [#kernel.verdict<probable bound -67, "3 draws">] costs [1.000000e+00, 5.000000e-01] : (tensor<8xf32>) -> tensor<8xf32> {
  %y = kernel.alternatives(%x) verdicts [#kernel.verdict<probable bound -67, "3 draws">] costs [1.0, 0.5]
      : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>):
    %0 = kernel.binary mul %a, %a : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    // CHECK: kernel.yield
    kernel.yield %0 : tensor<8xf32>
  }, {
  ^bb0(%a: tensor<8xf32>):
    %0 = kernel.unary square %a : (tensor<8xf32>) -> tensor<8xf32>
    kernel.yield %0 : tensor<8xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// CHECK-LABEL: kernel.graph @launch
kernel.graph @launch(%x: tensor<64x32xf16>) -> tensor<64x32xf16> attributes {form = #kernel.form<scheduled>} {
  // CHECK: kernel.launch(%{{.*}}) grid [m = 4, h = 1] schedule <warps = 4, stages = 2> : (tensor<64x32xf16>) -> tensor<64x32xf16> {
  %y = kernel.launch(%x) grid [m = 4, h = 1] schedule <warps = 4, stages = 2>
      : (tensor<64x32xf16>) -> tensor<64x32xf16> {
  ^bb0(%gx: tensor<64x32xf16>):
    %t = block.load %gx [[m], [h]] : tensor<64x32xf16> -> !block.tile<16x32xf16>
    block.store %t [[m], [h]] : !block.tile<16x32xf16>
  }
  kernel.return %y : tensor<64x32xf16>
}

// CHECK-LABEL: kernel.graph @invoke
kernel.graph @invoke(%x: tensor<64x32xf16>) -> tensor<64x32xf16> attributes {form = #kernel.form<binary>} {
  // CHECK: kernel.invoke @kernels::@f(%{{.*}}) grid [4, 1, 1] block [128, 1, 1] shared 4096 : (tensor<64x32xf16>) -> tensor<64x32xf16>
  %y = kernel.invoke @kernels::@f(%x) grid [4, 1, 1] block [128, 1, 1] shared 4096
      : (tensor<64x32xf16>) -> tensor<64x32xf16>
  kernel.return %y : tensor<64x32xf16>
}

// CHECK-LABEL: kernel.graph @warpgroups
kernel.graph @warpgroups(%x: tensor<64x32xf16>) -> tensor<64x32xf16> attributes {form = #kernel.form<scheduled>} {
  // CHECK: schedule <warps = 8, stages = 4, engine = warpgroup> :
  %y = kernel.launch(%x) grid [m = 4] schedule <warps = 8, stages = 4, engine = warpgroup> : (tensor<64x32xf16>) -> tensor<64x32xf16> {
  ^bb0(%gx: tensor<64x32xf16>):
    %t = block.load %gx [[m], []] : tensor<64x32xf16> -> !block.tile<16x32xf16>
    block.store %t [[m], []] : !block.tile<16x32xf16>
  }
  kernel.return %y : tensor<64x32xf16>
}

// CHECK-LABEL: kernel.graph @resident
kernel.graph @resident(%x: tensor<64x32xf16>) -> tensor<64x32xf16> attributes {form = #kernel.form<scheduled>} {
  // CHECK: schedule <warps = 8, stages = 4, engine = warpgroup, resident = 132> :
  %y = kernel.launch(%x) grid [m = 4] schedule <warps = 8, stages = 4, engine = warpgroup, resident = 132> : (tensor<64x32xf16>) -> tensor<64x32xf16> {
  ^bb0(%gx: tensor<64x32xf16>):
    %t = block.load %gx [[m], []] : tensor<64x32xf16> -> !block.tile<16x32xf16>
    block.store %t [[m], []] : !block.tile<16x32xf16>
  }
  kernel.return %y : tensor<64x32xf16>
}

// CHECK-LABEL: kernel.graph @joined_dimensions
kernel.graph @joined_dimensions(%x: tensor<64x8x129xf16>) -> tensor<64x8x129xf16> {
  // CHECK: shared 0 maps [#kernel.tensor_map<parameter = 0, box = [64, 64], swizzle = 128>] :
  %y = kernel.invoke @kernels::@f(%x) grid [4, 1, 1] block [128, 1, 1] shared 0 maps [#kernel.tensor_map<parameter = 0, box = [64, 64], swizzle = 128>] : (tensor<64x8x129xf16>) -> tensor<64x8x129xf16>
  kernel.return %y : tensor<64x8x129xf16>
}

// CHECK-LABEL: kernel.graph @tensor_maps
kernel.graph @tensor_maps(%x: tensor<64x32xf16>) -> tensor<64x32xf16> {
  // CHECK: shared 0 maps [#kernel.tensor_map<parameter = 1, box = [64, 32], swizzle = 64>] :
  %y = kernel.invoke @kernels::@f(%x) grid [4, 1, 1] block [128, 1, 1] shared 0 maps [#kernel.tensor_map<parameter = 1, box = [64, 32], swizzle = 64>] : (tensor<64x32xf16>) -> tensor<64x32xf16>
  kernel.return %y : tensor<64x32xf16>
}

// CHECK-LABEL: kernel.graph @causal
// CHECK-SAME:    (%{{.*}}: tensor<1000x64xf16>, %{{.*}}: tensor<2x16xi64>, %{{.*}}: tensor<16x16xi1>)
kernel.graph @causal(%table: tensor<1000x64xf16>, %ids: tensor<2x16xi64>, %seen: tensor<16x16xi1>)
    -> (tensor<2x16x64xf16>, tensor<16x16xf16>) {
  // CHECK: kernel.gather %{{.*}}, %{{.*}} : (tensor<1000x64xf16>, tensor<2x16xi64>) -> tensor<2x16x64xf16>
  %x = kernel.gather %table, %ids : (tensor<1000x64xf16>, tensor<2x16xi64>) -> tensor<2x16x64xf16>
  // CHECK: kernel.gather %{{.*}}, %{{.*}} from_end : (tensor<1000x64xf16>, tensor<2x16xi64>) -> tensor<2x16x64xf16>
  %from_end = kernel.gather %table, %ids from_end : (tensor<1000x64xf16>, tensor<2x16xi64>) -> tensor<2x16x64xf16>
  // CHECK: %[[I:.*]] = kernel.iota dim 0 : tensor<16xi64>
  %i = kernel.iota dim 0 : tensor<16xi64>
  %row = kernel.reshape %i : (tensor<16xi64>) -> tensor<16x1xi64>
  // CHECK: kernel.binary le %[[I]], %{{.*}} : (tensor<16xi64>, tensor<16x1xi64>) -> tensor<16x16xi1>
  %m = kernel.binary le %i, %row : (tensor<16xi64>, tensor<16x1xi64>) -> tensor<16x16xi1>
  // CHECK: kernel.binary and
  %both = kernel.binary and %m, %seen : (tensor<16x16xi1>, tensor<16x16xi1>) -> tensor<16x16xi1>
  // CHECK: kernel.cast %{{.*}} : (tensor<16x16xi1>) -> tensor<16x16xf16>
  %f = kernel.cast %both : (tensor<16x16xi1>) -> tensor<16x16xf16>
  // CHECK: kernel.cast %{{.*}} : (tensor<16x16xf16>) -> tensor<16x16xi64>
  %cut = kernel.cast %f : (tensor<16x16xf16>) -> tensor<16x16xi64>
  // CHECK: kernel.cast %{{.*}} : (tensor<16x16xi64>) -> tensor<16x16xi32>
  %narrow = kernel.cast %cut : (tensor<16x16xi64>) -> tensor<16x16xi32>
  // CHECK: kernel.unary bias
  %b = kernel.unary bias %f : (tensor<16x16xf16>) -> tensor<16x16xf16>
  // CHECK: kernel.constant 3.000000e+00 : tensor<i64>
  %three = kernel.constant 3.0 : tensor<i64>
  // CHECK: kernel.binary floor_div %[[I]], %{{.*}} : (tensor<16xi64>, tensor<i64>) -> tensor<16xi64>
  %blocks = kernel.binary floor_div %i, %three : (tensor<16xi64>, tensor<i64>) -> tensor<16xi64>
  // CHECK: kernel.binary keep %{{.*}}, %{{.*}} : (tensor<16x16xi1>, tensor<16x16xf16>) -> tensor<16x16xf16>
  %k = kernel.binary keep %both, %b : (tensor<16x16xi1>, tensor<16x16xf16>) -> tensor<16x16xf16>
  kernel.return %x, %k : tensor<2x16x64xf16>, tensor<16x16xf16>
}

// CHECK: kernel.graph @dynamic(%{{.*}}: tensor<64x8xf16>, %{{.*}}: tensor<8xf16>) -> tensor<32x16xf16> attributes {dynamic = #kernel.dynamic<bound = 16, tensors = [0]>}
kernel.graph @dynamic(%x: tensor<64x8xf16>, %w: tensor<8xf16>) -> tensor<32x16xf16>
    attributes {dynamic = #kernel.dynamic<bound = 16, tensors = [0]>} {
  // CHECK: kernel.invoke @kernels::@f(%{{.*}}, %{{.*}}) grid [8, 1, 1] block [64, 1, 1] shared 0 dynamic <bound = 16, tensors = [0, 2]> rows [4, 8]
  %y = kernel.invoke @kernels::@f(%x, %w) grid [8, 1, 1] block [64, 1, 1] shared 0
       dynamic <bound = 16, tensors = [0, 2]> rows [4, 8] : (tensor<64x8xf16>, tensor<8xf16>) -> tensor<64x8xf16>
  %r = kernel.reshape %y : (tensor<64x8xf16>) -> tensor<32x16xf16>
  kernel.return %r : tensor<32x16xf16>
}

// CHECK-LABEL: kernel.graph @eight_bits
kernel.graph @eight_bits(%a: tensor<4x8xf16>, %b: tensor<8x6xf8E5M2>) -> (tensor<4x6xf32>, tensor<8x8xf8E4M3FN>) {
  // CHECK: kernel.unary round_e4m3 %{{.*}} : (tensor<4x8xf16>) -> tensor<4x8xf8E4M3FN>
  %0 = kernel.unary round_e4m3 %a : (tensor<4x8xf16>) -> tensor<4x8xf8E4M3FN>
  // CHECK: kernel.matmul %{{.*}} : (tensor<4x8xf8E4M3FN>, tensor<8x6xf8E5M2>) -> tensor<4x6xf32>
  %1 = kernel.matmul %0, %b : (tensor<4x8xf8E4M3FN>, tensor<8x6xf8E5M2>) -> tensor<4x6xf32>
  // CHECK: kernel.concat %{{.*}} dim 0 : (tensor<4x8xf8E4M3FN>, tensor<4x8xf8E4M3FN>) -> tensor<8x8xf8E4M3FN>
  %2 = kernel.concat %0, %0 dim 0 : (tensor<4x8xf8E4M3FN>, tensor<4x8xf8E4M3FN>) -> tensor<8x8xf8E4M3FN>
  kernel.return %1, %2 : tensor<4x6xf32>, tensor<8x8xf8E4M3FN>
}

// A row of a cache, and a launch that stores one there.
// CHECK-LABEL: kernel.graph @updates
kernel.graph @updates(%x: tensor<32xf16>, %cache: tensor<2x64x16xf16>, %at: tensor<1xi64>) -> tensor<2x64x16xf16> {
  // CHECK: kernel.launch(%{{.*}}, %{{.*}}) grid [n = 4] places [#kernel.place<result = 0, index = 1, offset = 0, shape = [64, 2, 16], steps = [16, 1024, 1], digits = [2]>]
  %0 = kernel.launch(%x, %at) grid [n = 4]
      places [#kernel.place<result = 0, index = 1, offset = 0, shape = [64, 2, 16], steps = [16, 1024, 1], digits = [2]>]
      : (tensor<32xf16>, tensor<1xi64>) -> tensor<32xf16> {
  ^bb0(%p: tensor<32xf16>, %i: tensor<1xi64>):
    %t = block.load %p [[n]] : tensor<32xf16> -> !block.tile<8xf16>
    block.store %t [[n]] : !block.tile<8xf16>
  }
  %1 = kernel.reshape %0 : (tensor<32xf16>) -> tensor<2x1x16xf16>
  // CHECK: kernel.index_copy %{{.*}}, %{{.*}}, %{{.*}} dim 1 : (tensor<2x64x16xf16>, tensor<1xi64>, tensor<2x1x16xf16>) -> tensor<2x64x16xf16>
  %2 = kernel.index_copy %cache, %at, %1 dim 1 : (tensor<2x64x16xf16>, tensor<1xi64>, tensor<2x1x16xf16>) -> tensor<2x64x16xf16>
  kernel.return %2 : tensor<2x64x16xf16>
}

// CHECK-LABEL: kernel.graph @tf32
kernel.graph @tf32(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> tensor<4x6xf32> {
  // CHECK: kernel.matmul %{{.*}}, %{{.*}} tf32 : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %0 = kernel.matmul %x, %w tf32 : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  kernel.return %0 : tensor<4x6xf32>
}

// Exact arithmetic: a comparison of all pairs, and an op that wraps around.
// CHECK-LABEL: kernel.graph @integers
kernel.graph @integers(%a: tensor<16xi64>, %b: tensor<16x1xi32>, %x: tensor<4x16xf16>) -> (tensor<16x16xi1>, tensor<4x16xi32>) {
  // CHECK: kernel.integers %{{.*}}, %{{.*}} ["load 0", "load 1 -1", "le 1 0 : i1"] : (tensor<16xi64>, tensor<16x1xi32>) -> tensor<16x16xi1>
  %m = kernel.integers %a, %b ["load 0", "load 1 -1", "le 1 0 : i1"] : (tensor<16xi64>, tensor<16x1xi32>) -> tensor<16x16xi1>
  // CHECK: kernel.integers %{{.*}} ["load 0 1", "cast 0 : i32", "constant -7 : i32", "shift_left 1 2 : i32"]
  %y = kernel.integers %x ["load 0 1", "cast 0 : i32", "constant -7 : i32", "shift_left 1 2 : i32"] : (tensor<4x16xf16>) -> tensor<4x16xi32>
  // CHECK: kernel.integers %{{.*}} ["table 1", "position 1 : i64", "constant 3 : i64", "sub 1 2 : i64", "pick 0 3 : i64"] : (tensor<16xi64>) -> tensor<4x16xi64>
  %s = kernel.integers %a ["table 1", "position 1 : i64", "constant 3 : i64", "sub 1 2 : i64", "pick 0 3 : i64"] : (tensor<16xi64>) -> tensor<4x16xi64>
  kernel.return %m, %y : tensor<16x16xi1>, tensor<4x16xi32>
}

// Totals of integers that f32 need not hold.
// CHECK-LABEL: kernel.graph @integer_totals
kernel.graph @integer_totals(%a: tensor<16x8xi64>, %b: tensor<16x8xi8>) -> (tensor<16x1xi64>, tensor<16x8xi8>) {
  // CHECK: kernel.integer_reduce sum %{{.*}} dims [1] : (tensor<16x8xi64>) -> tensor<16x1xi64>
  %s = kernel.integer_reduce sum %a dims [1] : (tensor<16x8xi64>) -> tensor<16x1xi64>
  // CHECK: kernel.integer_cumulate max reversed %{{.*}} dim 0 : (tensor<16x8xi8>) -> tensor<16x8xi8>
  %c = kernel.integer_cumulate max reversed %b dim 0 : (tensor<16x8xi8>) -> tensor<16x8xi8>
  kernel.return %s, %c : tensor<16x1xi64>, tensor<16x8xi8>
}

// CHECK-LABEL: kernel.graph @orders
kernel.graph @orders(%a: tensor<16x8xf16>) -> (tensor<16x8xi64>, tensor<3x8xi64>) {
  // CHECK: kernel.argsort descending %{{.*}} dim 1 : (tensor<16x8xf16>) -> tensor<16x8xi64>
  %p = kernel.argsort descending %a dim 1 : (tensor<16x8xf16>) -> tensor<16x8xi64>
  // CHECK: kernel.argsort %{{.*}} dim 0 : (tensor<16x8xf16>) -> tensor<3x8xi64>
  %q = kernel.argsort %a dim 0 : (tensor<16x8xf16>) -> tensor<3x8xi64>
  kernel.return %p, %q : tensor<16x8xi64>, tensor<3x8xi64>
}
