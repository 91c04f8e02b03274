// RUN: mirage-opt %s --split-input-file --verify-diagnostics

kernel.graph @unary_shape(%x: tensor<4x8xf16>) -> tensor<4x4xf16> {
  // expected-error @+1 {{expected a result of shape 4x8, got 4x4}}
  %0 = kernel.unary exp %x : (tensor<4x8xf16>) -> tensor<4x4xf16>
  kernel.return %0 : tensor<4x4xf16>
}

// -----

kernel.graph @unary_type(%x: tensor<4x8xf16>) -> tensor<4x8xf32> {
  // expected-error @+1 {{expected a result of element type 'f16', got 'f32'}}
  %0 = kernel.unary exp %x : (tensor<4x8xf16>) -> tensor<4x8xf32>
  kernel.return %0 : tensor<4x8xf32>
}

// -----

kernel.graph @broadcast(%x: tensor<4x8xf16>, %y: tensor<3xf16>) -> tensor<4x8xf16> {
  // expected-error @+1 {{expected operands that broadcast, got 4x8 and 3}}
  %0 = kernel.binary add %x, %y : (tensor<4x8xf16>, tensor<3xf16>) -> tensor<4x8xf16>
  kernel.return %0 : tensor<4x8xf16>
}

// -----

kernel.graph @promotion(%x: tensor<4xf16>, %y: tensor<4xbf16>) -> tensor<4xf16> {
  // expected-error @+1 {{expected a result of element type 'f32', got 'f16'}}
  %0 = kernel.binary add %x, %y : (tensor<4xf16>, tensor<4xbf16>) -> tensor<4xf16>
  kernel.return %0 : tensor<4xf16>
}

// -----

kernel.graph @matmul_inner(%x: tensor<4x8xf16>, %y: tensor<4x8xf16>) -> tensor<4x8xf16> {
  // expected-error @+1 {{expected the last size of the left operand to equal the last but one of the right, got 4x8 and 4x8}}
  %0 = kernel.matmul %x, %y : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x8xf16>
  kernel.return %0 : tensor<4x8xf16>
}

// -----

kernel.graph @matmul_tf32(%x: tensor<4x8xf16>, %y: tensor<8x4xf16>) -> tensor<4x4xf16> {
  // expected-error @+1 {{expected factors of f32 to be rounded to TF32, got 'tensor<4x8xf16>'}}
  %0 = kernel.matmul %x, %y tf32 : (tensor<4x8xf16>, tensor<8x4xf16>) -> tensor<4x4xf16>
  kernel.return %0 : tensor<4x4xf16>
}

// -----

kernel.graph @matmul_batch(%x: tensor<2x4x8xf16>, %y: tensor<3x8x4xf16>) -> tensor<2x4x4xf16> {
  // expected-error @+1 {{expected leading dimensions that broadcast, got 2x4x8 and 3x8x4}}
  %0 = kernel.matmul %x, %y : (tensor<2x4x8xf16>, tensor<3x8x4xf16>) -> tensor<2x4x4xf16>
  kernel.return %0 : tensor<2x4x4xf16>
}

// -----

kernel.graph @cumulate_dim(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  // expected-error @+1 {{expected a dimension below 2, got 2}}
  %0 = kernel.cumulate sum %x dim 2 : (tensor<4x8xf16>) -> tensor<4x8xf16>
  kernel.return %0 : tensor<4x8xf16>
}

// -----

kernel.graph @reduce_dims(%x: tensor<4x8xf16>) -> tensor<4x1xf16> {
  // expected-error @+1 {{expected sorted, distinct dimensions below 2, got [1, 1]}}
  %0 = kernel.reduce sum %x dims [1, 1] : (tensor<4x8xf16>) -> tensor<4x1xf16>
  kernel.return %0 : tensor<4x1xf16>
}

// -----

kernel.graph @transpose(%x: tensor<4x8xf16>) -> tensor<8x4xf16> {
  // expected-error @+1 {{expected a permutation of 2 dimensions, got [1, 1]}}
  %0 = kernel.transpose %x [1, 1] : (tensor<4x8xf16>) -> tensor<8x4xf16>
  kernel.return %0 : tensor<8x4xf16>
}

// -----

kernel.graph @reshape(%x: tensor<4x8xf16>) -> tensor<5x7xf16> {
  // expected-error @+1 {{expected a result of 32 elements, got 5x7}}
  %0 = kernel.reshape %x : (tensor<4x8xf16>) -> tensor<5x7xf16>
  kernel.return %0 : tensor<5x7xf16>
}

// -----

kernel.graph @concat(%x: tensor<4x8xf16>, %y: tensor<3x8xf16>) -> tensor<4x16xf16> {
  // expected-error @+1 {{expected operands of equal shape outside of dimension 1, got 4x8 and 3x8}}
  %0 = kernel.concat %x, %y dim 1 : (tensor<4x8xf16>, tensor<3x8xf16>) -> tensor<4x16xf16>
  kernel.return %0 : tensor<4x16xf16>
}

// -----

kernel.graph @slice(%x: tensor<4x8xf16>) -> tensor<4x4xf16> {
  // expected-error @+1 {{expected a block inside of 4x8, got offsets [0, 5] and sizes 4x4}}
  %0 = kernel.slice %x [0, 5] : (tensor<4x8xf16>) -> tensor<4x4xf16>
  kernel.return %0 : tensor<4x4xf16>
}

// -----

kernel.graph @softmax(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  // expected-error @+1 {{expected a dimension below 2, got 2}}
  %0 = kernel.softmax %x dim 2 : (tensor<4x8xf16>) -> tensor<4x8xf16>
  kernel.return %0 : tensor<4x8xf16>
}

// -----

kernel.graph @norm_gain(%x: tensor<4x8xf16>, %g: tensor<4xf16>) -> tensor<4x8xf16> {
  // expected-error @+1 {{expected a gain or bias of shape 8, got 4}}
  %0 = kernel.rms_norm %x, %g eps 1.0e-6 dims 1 : (tensor<4x8xf16>, tensor<4xf16>) -> tensor<4x8xf16>
  kernel.return %0 : tensor<4x8xf16>
}

// -----

kernel.graph @norm_operands(%x: tensor<8xf16>) -> tensor<8xf16> {
  // expected-error @+1 {{expected an input, a gain and a bias at most, got 4 operands}}
  %0 = kernel.layer_norm %x, %x, %x, %x eps 1.0e-6 dims 1
      : (tensor<8xf16>, tensor<8xf16>, tensor<8xf16>, tensor<8xf16>) -> tensor<8xf16>
  kernel.return %0 : tensor<8xf16>
}

// -----

// expected-error @+1 {{expected inputs and results to be tensors of static shape, of floats, integers or truth values, got 'tensor<?xf16>'}}
kernel.graph @dynamic(%x: tensor<?xf16>) -> tensor<4xf16> {
  %0 = kernel.unary exp %x : (tensor<?xf16>) -> tensor<4xf16>
  kernel.return %0 : tensor<4xf16>
}

// -----

kernel.graph @return_type(%x: tensor<4xf16>) -> tensor<8xf16> {
  // expected-error @+1 {{expected result 0 of type 'tensor<8xf16>', got 'tensor<4xf16>'}}
  kernel.return %x : tensor<4xf16>
}

// -----

// expected-note @+1 {{the form is claimed here}}
kernel.graph @form_reference(%x: tensor<8xf32>) -> tensor<8xf32> attributes {form = #kernel.form<reference>} {
  // expected-error @+1 {{form 'reference' expects predefined tensor ops only}}
  %y = kernel.alternatives(%x) : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>):
    kernel.yield %a : tensor<8xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

// expected-note @+1 {{the form is claimed here}}
kernel.graph @form_verified(%x: tensor<8xf32>) -> tensor<8xf32> attributes {form = #kernel.form<verified>} {
  // expected-error @+1 {{form 'verified' expects verdicts that are proved or probable}}
  %y = kernel.alternatives(%x) verdicts [#kernel.verdict<refuted>] : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>):
    kernel.yield %a : tensor<8xf32>
  }, {
  ^bb0(%a: tensor<8xf32>):
    kernel.yield %a : tensor<8xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

// expected-note @+1 {{the form is claimed here}}
kernel.graph @form_scheduled(%x: tensor<8xf32>) -> tensor<8xf32> attributes {form = #kernel.form<scheduled>} {
  // expected-error @+1 {{form 'scheduled' expects a schedule for each launch}}
  %y = kernel.launch(%x) grid [m = 2] : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf32>):
    %t = block.load %gx [[m]] : tensor<8xf32> -> !block.tile<4xf32>
    block.store %t [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @verdict_count(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{expected 0 verdicts, one for each candidate, got 1}}
  %y = kernel.alternatives(%x) verdicts [#kernel.verdict<proved>] : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>):
    kernel.yield %a : tensor<8xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @axes(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{expected distinct names of axes, got 'm' twice}}
  %y = kernel.launch(%x) grid [m = 2, m = 2] : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf32>):
    %t = block.load %gx [[m]] : tensor<8xf32> -> !block.tile<4xf32>
    block.store %t [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @engine(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{expected a multiple of 4 up to 28 warps beside the one that copies, got 6}}
  %y = kernel.launch(%x) grid [m = 2] schedule <warps = 6, stages = 1, engine = warpgroup> : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf32>):
    %t = block.load %gx [[m]] : tensor<8xf32> -> !block.tile<4xf32>
    block.store %t [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @resident(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{expected resident blocks with engine = warpgroup alone, got 132}}
  %y = kernel.launch(%x) grid [m = 2] schedule <warps = 4, stages = 1, resident = 132> : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf32>):
    %t = block.load %gx [[m]] : tensor<8xf32> -> !block.tile<4xf32>
    block.store %t [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @map_parameter(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // expected-error @+1 {{expected a tensor map of one of 2 tensors, got parameter 2}}
  %y = kernel.invoke @kernels::@f(%x) grid [1, 1, 1] block [128, 1, 1] shared 0 maps [#kernel.tensor_map<parameter = 2, box = [8, 8], swizzle = 0>] : (tensor<8x8xf32>) -> tensor<8x8xf32>
  kernel.return %y : tensor<8x8xf32>
}

// -----

kernel.graph @whole_clusters(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // expected-error @+1 {{expected a grid of whole clusters, got}}
  %y = kernel.invoke @kernels::@f(%x) grid [3, 1, 1] block [128, 1, 1] cluster [2, 1, 1] shared 0 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  kernel.return %y : tensor<8x8xf32>
}

// -----

kernel.graph @map_of_joined_dimensions(%x: tensor<8x4x8xf32, #kernel.strides<[64, 16, 1], align = 16>>) -> tensor<8x8xf32> {
  // expected-error @+1 {{expected a box with the rank of 'tensor<8x4x8xf32, #kernel.strides}}
  %y = kernel.invoke @kernels::@f(%x) grid [1, 1, 1] block [128, 1, 1] shared 0 maps [#kernel.tensor_map<parameter = 0, box = [8, 8], swizzle = 0>] : (tensor<8x4x8xf32, #kernel.strides<[64, 16, 1], align = 16>>) -> tensor<8x8xf32>
  kernel.return %y : tensor<8x8xf32>
}

// -----

kernel.graph @map_box(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // expected-error @+1 {{expected a box with the rank of 'tensor<8x8xf32>'}}
  %y = kernel.invoke @kernels::@f(%x) grid [1, 1, 1] block [128, 1, 1] shared 0 maps [#kernel.tensor_map<parameter = 0, box = [8], swizzle = 0>] : (tensor<8x8xf32>) -> tensor<8x8xf32>
  kernel.return %y : tensor<8x8xf32>
}

// -----

kernel.graph @cluster_size(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{expected a cluster of 1, 2, 4 or 8 blocks, got 3}}
  %y = kernel.launch(%x) grid [m = 2] schedule <warps = 4, stages = 1, engine = warpgroup, cluster = 3> : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf32>):
    %t = block.load %gx [[m]] : tensor<8xf32> -> !block.tile<4xf32>
    block.store %t [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @shared_cluster_size(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{expected a cluster of 1, 2, 4, 8 or 16 blocks, got 32}}
  %y = kernel.launch(%x) grid [m = 2] schedule <warps = 4, stages = 1, cluster = 32> : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf32>):
    %t = block.load %gx [[m]] : tensor<8xf32> -> !block.tile<4xf32>
    block.store %t [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @cluster_resident(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{expected whole clusters of 2 resident blocks, got 3}}
  %y = kernel.launch(%x) grid [m = 2] schedule <warps = 4, stages = 1, engine = warpgroup, resident = 3, cluster = 2> : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf32>):
    %t = block.load %gx [[m]] : tensor<8xf32> -> !block.tile<4xf32>
    block.store %t [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @schedule(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{expected 1 to 32 warps, got 64}}
  %y = kernel.launch(%x) grid [m = 2] schedule <warps = 64, stages = 1> : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf32>):
    %t = block.load %gx [[m]] : tensor<8xf32> -> !block.tile<4xf32>
    block.store %t [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @invoke(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{expected three positive sizes for grid, got [4, 0, 1]}}
  %y = kernel.invoke @kernels::@f(%x) grid [4, 0, 1] block [128, 1, 1] shared 0 : (tensor<8xf32>) -> tensor<8xf32>
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @beside(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{expected 'beside' of a dependent kernel and a positive number, got 1}}
  %y = kernel.invoke @kernels::@f(%x) grid [4, 1, 1] block [128, 1, 1] shared 0 beside 1 : (tensor<8xf32>) -> tensor<8xf32>
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @comparison_type(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{expected a result of element type 'i1', got 'f32'}}
  %0 = kernel.binary lt %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  kernel.return %0 : tensor<4xf32>
}

// -----

kernel.graph @integers_beside_floats(%x: tensor<4xf16>, %i: tensor<4xi64>) -> tensor<4xi64> {
  // expected-error @+1 {{expected a result of element type 'f16', got 'i64'}}
  %0 = kernel.binary add %x, %i : (tensor<4xf16>, tensor<4xi64>) -> tensor<4xi64>
  kernel.return %0 : tensor<4xi64>
}

// -----

kernel.graph @cut_to_truth(%x: tensor<4xf32>) -> tensor<4xi1> {
  // expected-error @+1 {{expected a conversion that keeps each number, got 'f32' to 'i1'; compare with binary ne 0}}
  %0 = kernel.cast %x : (tensor<4xf32>) -> tensor<4xi1>
  kernel.return %0 : tensor<4xi1>
}

// -----

kernel.graph @narrow(%x: tensor<4xi64>) -> tensor<4xi1> {
  // expected-error @+1 {{expected a conversion that keeps each number, got 'i64' to 'i1'}}
  %0 = kernel.cast %x : (tensor<4xi64>) -> tensor<4xi1>
  kernel.return %0 : tensor<4xi1>
}

// -----

kernel.graph @whole_fractions(%x: tensor<4xi64>) -> tensor<4xf32> {
  // expected-error @+1 {{expected a conversion to integers that are `whole`, got 'i64' to 'f32'}}
  %0 = kernel.cast %x whole : (tensor<4xi64>) -> tensor<4xf32>
  kernel.return %0 : tensor<4xf32>
}

// -----

kernel.graph @iota_dim() -> tensor<4xi64> {
  // expected-error @+1 {{expected a dimension below 1, got 1}}
  %0 = kernel.iota dim 1 : tensor<4xi64>
  kernel.return %0 : tensor<4xi64>
}

// -----

kernel.graph @iota_type() -> tensor<4xf32> {
  // expected-error @+1 {{expected positions of type i32 or i64, got 'f32'}}
  %0 = kernel.iota dim 0 : tensor<4xf32>
  kernel.return %0 : tensor<4xf32>
}

// -----

kernel.graph @gather_shape(%table: tensor<10x8xf16>, %ids: tensor<3xi64>) -> tensor<3x4xf16> {
  // expected-error @+1 {{expected a result of shape 3x8, got 3x4}}
  %0 = kernel.gather %table, %ids : (tensor<10x8xf16>, tensor<3xi64>) -> tensor<3x4xf16>
  kernel.return %0 : tensor<3x4xf16>
}

// -----

kernel.graph @gather_type(%table: tensor<10x8xf16>, %ids: tensor<3xi64>) -> tensor<3x8xf32> {
  // expected-error @+1 {{expected a result of element type 'f16', got 'f32'}}
  %0 = kernel.gather %table, %ids : (tensor<10x8xf16>, tensor<3xi64>) -> tensor<3x8xf32>
  kernel.return %0 : tensor<3x8xf32>
}

// -----

// expected-error @+2 {{expected a bound from 1 to 2^31 - 1, got 0}}
kernel.graph @no_bound(%x: tensor<8x4xf16>) -> tensor<8x4xf16>
    attributes {dynamic = #kernel.dynamic<bound = 0, tensors = [0]>} {
  kernel.return %x : tensor<8x4xf16>
}

// -----

// expected-error @+2 {{expected the numbers of tensors in increasing order, got 0 after 0}}
kernel.graph @twice(%x: tensor<8x4xf16>) -> tensor<8x4xf16>
    attributes {dynamic = #kernel.dynamic<bound = 8, tensors = [0, 0]>} {
  kernel.return %x : tensor<8x4xf16>
}

// -----

// expected-error @+1 {{expected dynamic arguments among 1, got 1}}
kernel.graph @no_argument(%x: tensor<8x4xf16>) -> tensor<8x4xf16>
    attributes {dynamic = #kernel.dynamic<bound = 8, tensors = [1]>} {
  kernel.return %x : tensor<8x4xf16>
}

// -----

// expected-error @+1 {{expected argument 0, which is dynamic, to have a multiple of 3 rows, got 'tensor<8x4xf16>'}}
kernel.graph @uneven(%x: tensor<8x4xf16>) -> tensor<8x4xf16>
    attributes {dynamic = #kernel.dynamic<bound = 3, tensors = [0]>} {
  kernel.return %x : tensor<8x4xf16>
}

// -----

kernel.graph @inner(%x: tensor<8x4xf16>) -> tensor<4x8xf16>
    attributes {dynamic = #kernel.dynamic<bound = 8, tensors = [0]>} {
  // expected-error @+1 {{expected a result, which is dynamic, to have a multiple of 8 rows, got 'tensor<4x8xf16>'}}
  %y = kernel.transpose %x [1, 0] : (tensor<8x4xf16>) -> tensor<4x8xf16>
  kernel.return %y : tensor<4x8xf16>
}

// -----

kernel.graph @rows_alone(%x: tensor<8x4xf16>) -> tensor<8x4xf16> {
  // expected-error @+1 {{expected 'rows' of dynamic tensors only, got them without 'dynamic'}}
  %y = kernel.invoke @kernels::@f(%x) grid [4, 1, 1] block [32, 1, 1] shared 0 rows [1, 2] : (tensor<8x4xf16>) -> tensor<8x4xf16>
  kernel.return %y : tensor<8x4xf16>
}

// -----

kernel.graph @parts(%x: tensor<8x4xf16>) -> tensor<8x4xf16> {
  // expected-error @+1 {{expected a grid of 4 equal parts along x, as 'rows' says, got 6 blocks}}
  %y = kernel.invoke @kernels::@f(%x) grid [6, 1, 1] block [32, 1, 1] shared 0 dynamic <bound = 8, tensors = [0, 1]> rows [1, 2] : (tensor<8x4xf16>) -> tensor<8x4xf16>
  kernel.return %y : tensor<8x4xf16>
}

// -----

kernel.graph @no_tensor(%x: tensor<8x4xf16>) -> tensor<8x4xf16> {
  // expected-error @+1 {{expected dynamic tensors among 2, got 2}}
  %y = kernel.invoke @kernels::@f(%x) grid [4, 1, 1] block [32, 1, 1] shared 0 dynamic <bound = 8, tensors = [0, 2]> : (tensor<8x4xf16>) -> tensor<8x4xf16>
  kernel.return %y : tensor<8x4xf16>
}

// -----

kernel.graph @rounded_by_a_cast(%x: tensor<4xf32>) -> tensor<4xf8E4M3FN> {
  // expected-error @+1 {{expected a conversion that keeps each number, got 'f32' to 'f8E4M3FN'; round with unary round_e4m3}}
  %0 = kernel.cast %x : (tensor<4xf32>) -> tensor<4xf8E4M3FN>
  kernel.return %0 : tensor<4xf8E4M3FN>
}

// -----

kernel.graph @from_one_to_another(%x: tensor<4xf8E4M3FN>) -> tensor<4xf8E5M2> {
  // expected-error @+1 {{got 'f8E4M3FN' to 'f8E5M2'; round with unary round_e5m2}}
  %0 = kernel.cast %x : (tensor<4xf8E4M3FN>) -> tensor<4xf8E5M2>
  kernel.return %0 : tensor<4xf8E5M2>
}

// -----

kernel.graph @rounded_type(%x: tensor<4xf32>) -> tensor<4xf8E5M2> {
  // expected-error @+1 {{expected a result of element type 'f8E4M3FN', got 'f8E5M2'}}
  %0 = kernel.unary round_e4m3 %x : (tensor<4xf32>) -> tensor<4xf8E5M2>
  kernel.return %0 : tensor<4xf8E5M2>
}

// -----

kernel.graph @computed_in_eight_bits(%x: tensor<4xf8E4M3FN>) -> tensor<4xf8E4M3FN> {
  // expected-error @+1 {{expected a result of element type 'f32', got 'f8E4M3FN'}}
  %0 = kernel.binary add %x, %x : (tensor<4xf8E4M3FN>, tensor<4xf8E4M3FN>) -> tensor<4xf8E4M3FN>
  kernel.return %0 : tensor<4xf8E4M3FN>
}

// -----

kernel.graph @other_eight_bits(%x: tensor<4xf8E4M3FNUZ>) -> tensor<4xf32> {
  // expected-error @+1 {{operand #0 must be}}
  %0 = kernel.cast %x : (tensor<4xf8E4M3FNUZ>) -> tensor<4xf32>
  kernel.return %0 : tensor<4xf32>
}

// -----

kernel.graph @place_of_nothing(%x: tensor<32xf16>, %at: tensor<1xi64>) -> tensor<32xf16> {
  // expected-error @+1 {{expected places of different results below 1, got one of 1}}
  %0 = kernel.launch(%x, %at) grid [n = 1]
      places [#kernel.place<result = 1, index = 1, offset = 0, shape = [64, 2, 16], steps = [16, 1024, 1], digits = [2]>]
      : (tensor<32xf16>, tensor<1xi64>) -> tensor<32xf16> {
  ^bb0(%p: tensor<32xf16>, %i: tensor<1xi64>):
    %t = block.load %p [[n]] : tensor<32xf16> -> !block.tile<32xf16>
    block.store %t [[n]] : !block.tile<32xf16>
  }
  kernel.return %0 : tensor<32xf16>
}

// -----

kernel.graph @places_of_one(%x: tensor<32xf16>, %at: tensor<1xi64>) -> tensor<32xf16> {
  // expected-error @+1 {{expected places of different results below 1, got one of 0}}
  %0 = kernel.launch(%x, %at) grid [n = 1]
      places [#kernel.place<result = 0, index = 1, offset = 0, shape = [64, 2, 16], steps = [16, 1024, 1], digits = [2]>, #kernel.place<result = 0, index = 1, offset = 0, shape = [64, 2, 16], steps = [16, 1024, 1], digits = [2]>]
      : (tensor<32xf16>, tensor<1xi64>) -> tensor<32xf16> {
  ^bb0(%p: tensor<32xf16>, %i: tensor<1xi64>):
    %t = block.load %p [[n]] : tensor<32xf16> -> !block.tile<32xf16>
    block.store %t [[n]] : !block.tile<32xf16>
  }
  kernel.return %0 : tensor<32xf16>
}

// -----

kernel.graph @place_without_index(%x: tensor<32xf16>, %at: tensor<1xi64>) -> tensor<32xf16> {
  // expected-error @+1 {{expected the index of a place among 2 operands, got 2}}
  %0 = kernel.launch(%x, %at) grid [n = 1]
      places [#kernel.place<result = 0, index = 2, offset = 0, shape = [64, 2, 16], steps = [16, 1024, 1], digits = [2]>]
      : (tensor<32xf16>, tensor<1xi64>) -> tensor<32xf16> {
  ^bb0(%p: tensor<32xf16>, %i: tensor<1xi64>):
    %t = block.load %p [[n]] : tensor<32xf16> -> !block.tile<32xf16>
    block.store %t [[n]] : !block.tile<32xf16>
  }
  kernel.return %0 : tensor<32xf16>
}

// -----

kernel.graph @place_of_several(%x: tensor<32xf16>, %at: tensor<3xi64>) -> tensor<32xf16> {
  // expected-error @+1 {{expected the index of a place to be one i32 or i64, got 'tensor<3xi64>'}}
  %0 = kernel.launch(%x, %at) grid [n = 1]
      places [#kernel.place<result = 0, index = 1, offset = 0, shape = [64, 2, 16], steps = [16, 1024, 1], digits = [2]>]
      : (tensor<32xf16>, tensor<3xi64>) -> tensor<32xf16> {
  ^bb0(%p: tensor<32xf16>, %i: tensor<3xi64>):
    %t = block.load %p [[n]] : tensor<32xf16> -> !block.tile<32xf16>
    block.store %t [[n]] : !block.tile<32xf16>
  }
  kernel.return %0 : tensor<32xf16>
}

// -----

kernel.graph @place_too_small(%x: tensor<32xf16>, %at: tensor<1xi64>) -> tensor<32xf16> {
  // expected-error @+1 {{expected a place whose digits make up 'tensor<32xf16>', got}}
  %0 = kernel.launch(%x, %at) grid [n = 1]
      places [#kernel.place<result = 0, index = 1, offset = 0, shape = [64, 2, 8], steps = [16, 1024, 1], digits = [2]>]
      : (tensor<32xf16>, tensor<1xi64>) -> tensor<32xf16> {
  ^bb0(%p: tensor<32xf16>, %i: tensor<1xi64>):
    %t = block.load %p [[n]] : tensor<32xf16> -> !block.tile<32xf16>
    block.store %t [[n]] : !block.tile<32xf16>
  }
  kernel.return %0 : tensor<32xf16>
}

// -----

kernel.graph @place_without_digits(%x: tensor<32xf16>, %at: tensor<1xi64>) -> tensor<32xf16> {
  // expected-error @+1 {{expected a place whose digits make up 'tensor<32xf16>', got}}
  %0 = kernel.launch(%x, %at) grid [n = 1]
      places [#kernel.place<result = 0, index = 1, offset = 0, shape = [64, 2, 16], steps = [16, 1024, 1], digits = [1]>]
      : (tensor<32xf16>, tensor<1xi64>) -> tensor<32xf16> {
  ^bb0(%p: tensor<32xf16>, %i: tensor<1xi64>):
    %t = block.load %p [[n]] : tensor<32xf16> -> !block.tile<32xf16>
    block.store %t [[n]] : !block.tile<32xf16>
  }
  kernel.return %0 : tensor<32xf16>
}

// -----

kernel.graph @copy_dim(%c: tensor<8x4xf16>, %at: tensor<1xi64>, %r: tensor<1x4xf16>) -> tensor<8x4xf16> {
  // expected-error @+1 {{expected a dimension below 2, got 2}}
  %0 = kernel.index_copy %c, %at, %r dim 2 : (tensor<8x4xf16>, tensor<1xi64>, tensor<1x4xf16>) -> tensor<8x4xf16>
  kernel.return %0 : tensor<8x4xf16>
}

// -----

kernel.graph @copy_row(%c: tensor<8x4xf16>, %at: tensor<1xi64>, %r: tensor<2x4xf16>) -> tensor<8x4xf16> {
  // expected-error @+1 {{expected a row of shape 1x4, got 2x4}}
  %0 = kernel.index_copy %c, %at, %r dim 0 : (tensor<8x4xf16>, tensor<1xi64>, tensor<2x4xf16>) -> tensor<8x4xf16>
  kernel.return %0 : tensor<8x4xf16>
}

// -----

kernel.graph @copy_several(%c: tensor<8x4xf16>, %at: tensor<2xi64>, %r: tensor<1x4xf16>) -> tensor<8x4xf16> {
  // expected-error @+1 {{expected an index of one element, got 'tensor<2xi64>'}}
  %0 = kernel.index_copy %c, %at, %r dim 0 : (tensor<8x4xf16>, tensor<2xi64>, tensor<1x4xf16>) -> tensor<8x4xf16>
  kernel.return %0 : tensor<8x4xf16>
}

// -----

kernel.graph @copy_type(%c: tensor<8x4xf16>, %at: tensor<1xi64>, %r: tensor<1x4xf32>) -> tensor<8x4xf16> {
  // expected-error @+1 {{expected a row of the tensor's element type 'f16', got 'f32'}}
  %0 = kernel.index_copy %c, %at, %r dim 0 : (tensor<8x4xf16>, tensor<1xi64>, tensor<1x4xf32>) -> tensor<8x4xf16>
  kernel.return %0 : tensor<8x4xf16>
}

// -----

kernel.graph @copy_result(%c: tensor<8x4xf16>, %at: tensor<1xi64>, %r: tensor<1x4xf16>) -> tensor<9x4xf16> {
  // expected-error @+1 {{expected a result of shape 8x4, got 9x4}}
  %0 = kernel.index_copy %c, %at, %r dim 0 : (tensor<8x4xf16>, tensor<1xi64>, tensor<1x4xf16>) -> tensor<9x4xf16>
  kernel.return %0 : tensor<9x4xf16>
}

// -----

kernel.graph @integers_table_rank(%a: tensor<4xi64>) -> tensor<4xi64> {
  // expected-error @+1 {{step 0: expected a table of rank 2, got 'tensor<4xi64>'}}
  %0 = kernel.integers %a ["table 2", "position 0 : i64", "pick 0 1 1 : i64"] : (tensor<4xi64>) -> tensor<4xi64>
  kernel.return %0 : tensor<4xi64>
}

// -----

kernel.graph @integers_table_indices(%a: tensor<4xi64>) -> tensor<4xi64> {
  // expected-error @+1 {{step 2: expected a table, and an index for each of its dimensions}}
  %0 = kernel.integers %a ["table 1", "position 0 : i64", "pick 0 1 1 : i64"] : (tensor<4xi64>) -> tensor<4xi64>
  kernel.return %0 : tensor<4xi64>
}

// -----

kernel.graph @integers_table_elements(%a: tensor<4xi32>) -> tensor<4xi64> {
  // expected-error @+1 {{step 2: expected elements of type 'i64', got 'tensor<4xi32>'}}
  %0 = kernel.integers %a ["table 1", "position 0 : i64", "pick 0 1 : i64"] : (tensor<4xi32>) -> tensor<4xi64>
  kernel.return %0 : tensor<4xi64>
}

// -----

kernel.graph @integers_table_read(%a: tensor<4xi64>) -> tensor<4xi64> {
  // expected-error @+1 {{step 2: expected no table, got step 0}}
  %0 = kernel.integers %a ["table 1", "position 0 : i64", "add 0 1 : i64"] : (tensor<4xi64>) -> tensor<4xi64>
  kernel.return %0 : tensor<4xi64>
}

// -----

kernel.graph @integers_step(%a: tensor<4xi64>) -> tensor<4xi64> {
  // expected-error @+1 {{step 1: expected the numbers of two earlier steps, got 'add 0 : i64'}}
  %0 = kernel.integers %a ["load 0", "add 0 : i64"] : (tensor<4xi64>) -> tensor<4xi64>
  kernel.return %0 : tensor<4xi64>
}

// -----

kernel.graph @integers_later(%a: tensor<4xi64>) -> tensor<4xi64> {
  // expected-error @+1 {{step 1: expected numbers of earlier steps, got 'neg 1 : i64'}}
  %0 = kernel.integers %a ["load 0", "neg 1 : i64"] : (tensor<4xi64>) -> tensor<4xi64>
  kernel.return %0 : tensor<4xi64>
}

// -----

kernel.graph @integers_function(%a: tensor<4xi64>) -> tensor<4xi64> {
  // expected-error @+1 {{step 1: expected a function of integers, got 'exp 0 : i64'}}
  %0 = kernel.integers %a ["load 0", "exp 0 : i64"] : (tensor<4xi64>) -> tensor<4xi64>
  kernel.return %0 : tensor<4xi64>
}

// -----

kernel.graph @integers_type(%a: tensor<4xi64>) -> tensor<4xi64> {
  // expected-error @+1 {{step 1: expected a type of integers or floats of at least 16 bits after a colon, got 'neg 0 : f64'}}
  %0 = kernel.integers %a ["load 0", "neg 0 : f64"] : (tensor<4xi64>) -> tensor<4xi64>
  kernel.return %0 : tensor<4xi64>
}

// -----

kernel.graph @integers_float_result(%a: tensor<4xi64>) -> tensor<4xf32> {
  // expected-error @+1 {{step 1: expected a function whose results are integers, got 'neg 0 : f32'}}
  %0 = kernel.integers %a ["load 0", "neg 0 : f32"] : (tensor<4xi64>) -> tensor<4xf32>
  kernel.return %0 : tensor<4xf32>
}

// -----

kernel.graph @integers_float_operand(%a: tensor<4xf32>) -> tensor<4xi64> {
  // expected-error @+1 {{step 1: expected integers, got 'f32', of which only operands are converted}}
  %0 = kernel.integers %a ["load 0", "neg 0 : i64"] : (tensor<4xf32>) -> tensor<4xi64>
  kernel.return %0 : tensor<4xi64>
}

// -----

kernel.graph @integers_late_load(%a: tensor<4xi64>) -> tensor<4xi64> {
  // expected-error @+1 {{step 0: expected numbers of earlier steps, got 'neg 0 : i64'}}
  %0 = kernel.integers %a ["neg 0 : i64", "load 0"] : (tensor<4xi64>) -> tensor<4xi64>
  kernel.return %0 : tensor<4xi64>
}

// -----

kernel.graph @integers_loads_alone(%a: tensor<4xi64>) -> tensor<4xi64> {
  // expected-error @+1 {{expected a formula that computes something, got loads alone}}
  %0 = kernel.integers %a ["load 0"] : (tensor<4xi64>) -> tensor<4xi64>
  kernel.return %0 : tensor<4xi64>
}

// -----

kernel.graph @integers_count(%a: tensor<4xi64>) -> tensor<4xi64> {
  // expected-error @+1 {{expected one load for each of the 1 operands, got 2}}
  %0 = kernel.integers %a ["load 0", "load 0", "add 0 1 : i64"] : (tensor<4xi64>) -> tensor<4xi64>
  kernel.return %0 : tensor<4xi64>
}

// -----

kernel.graph @integers_rank(%a: tensor<4xi64>) -> tensor<4xi64> {
  // expected-error @+1 {{step 0: expected a dimension for each of 1, got 2}}
  %0 = kernel.integers %a ["load 0 1", "neg 0 : i64"] : (tensor<4xi64>) -> tensor<4xi64>
  kernel.return %0 : tensor<4xi64>
}

// -----

kernel.graph @integers_size(%a: tensor<4xi64>) -> tensor<5xi64> {
  // expected-error @+1 {{step 0: expected each dimension of 'tensor<4xi64>' along one of the result that has its size, or -1 where it is 1, got 0 for dimension 0}}
  %0 = kernel.integers %a ["load 0", "neg 0 : i64"] : (tensor<4xi64>) -> tensor<5xi64>
  kernel.return %0 : tensor<5xi64>
}

// -----

kernel.graph @integers_result(%a: tensor<4xi64>) -> tensor<4xi64> {
  // expected-error @+1 {{expected a result of the last step's type 'i32', got 'i64'}}
  %0 = kernel.integers %a ["load 0", "neg 0 : i32"] : (tensor<4xi64>) -> tensor<4xi64>
  kernel.return %0 : tensor<4xi64>
}

// -----

kernel.graph @integer_total_of_floats(%x: tensor<4x8xf32>) -> tensor<4x1xf32> {
  // expected-error @+1 {{operand #0 must be statically shaped tensor of 8-bit signless integer or 16-bit signless integer or 32-bit signless integer or 64-bit signless integer values, but got 'tensor<4x8xf32>'}}
  %0 = kernel.integer_reduce sum %x dims [1] : (tensor<4x8xf32>) -> tensor<4x1xf32>
  kernel.return %0 : tensor<4x1xf32>
}

// -----

kernel.graph @wider_integer_total(%x: tensor<4x8xi32>) -> tensor<4x1xi64> {
  // expected-error @+1 {{expected a result of element type 'i32', got 'i64'}}
  %0 = kernel.integer_reduce sum %x dims [1] : (tensor<4x8xi32>) -> tensor<4x1xi64>
  kernel.return %0 : tensor<4x1xi64>
}

// -----

kernel.graph @integer_scan_along_nothing(%x: tensor<4x8xi64>) -> tensor<4x8xi64> {
  // expected-error @+1 {{expected a dimension below 2, got 2}}
  %0 = kernel.integer_cumulate sum %x dim 2 : (tensor<4x8xi64>) -> tensor<4x8xi64>
  kernel.return %0 : tensor<4x8xi64>
}

// -----

kernel.graph @too_many_places(%x: tensor<4x8xf32>) -> tensor<4x9xi64> {
  // expected-error @+1 {{expected a result of shape 4x8, got 4x9}}
  %0 = kernel.argsort %x dim 1 : (tensor<4x8xf32>) -> tensor<4x9xi64>
  kernel.return %0 : tensor<4x9xi64>
}
