// RUN: mirage-opt %s --split-input-file --verify-diagnostics

kernel.graph @unknown_axis(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = kernel.launch(%x) grid [m = 2] : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf32>):
    // expected-error @+1 {{expected axes of the grid or of a loop around, got 'n'}}
    %t = block.load %gx [[n]] : tensor<8xf32> -> !block.tile<4xf32>
    block.store %t [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @axis_twice(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %y = kernel.launch(%x) grid [m = 2] : (tensor<8x8xf32>) -> tensor<8x8xf32> {
  ^bb0(%gx: tensor<8x8xf32>):
    // expected-error @+1 {{expected each axis at most once in a map, got 'm' twice}}
    %t = block.load %gx [[m], [m]] : tensor<8x8xf32> -> !block.tile<4x4xf32>
    block.store %t [[m], []] : !block.tile<4x4xf32>
  }
  kernel.return %y : tensor<8x8xf32>
}

// -----

kernel.graph @cover(%x: tensor<9xf32>) -> tensor<9xf32> {
  %y = kernel.launch(%x) grid [m = 2] : (tensor<9xf32>) -> tensor<9xf32> {
  ^bb0(%gx: tensor<9xf32>):
    // expected-error @+1 {{expected the parts to cover dimension 0 of size 9, got 2 parts of 4}}
    %t = block.load %gx [[m]] : tensor<9xf32> -> !block.tile<4xf32>
    block.store %t [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<9xf32>
}

// -----

kernel.graph @too_large(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = kernel.launch(%x) grid [m = 2] : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf32>):
    // expected-error @+1 {{expected a tile of at most 8 along dimension 0, got 16}}
    %t = block.load %gx [[m]] : tensor<8xf32> -> !block.tile<16xf32>
    block.store %t [[m]] : !block.tile<16xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @map_rank(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = kernel.launch(%x) grid [m = 2] : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf32>):
    // expected-error @+1 {{expected a map and a tile of the tensor's rank 1, got 2 and 1}}
    %t = block.load %gx [[m], []] : tensor<8xf32> -> !block.tile<4xf32>
    block.store %t [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @load_type(%x: tensor<8xf16>) -> tensor<8xf32> {
  %y = kernel.launch(%x) grid [m = 2] : (tensor<8xf16>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf16>):
    // expected-error @+1 {{expected a result of element type 'f16', got 'f32'}}
    %t = block.load %gx [[m]] : tensor<8xf16> -> !block.tile<4xf32>
    block.store %t [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @store_count(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %y:2 = kernel.launch(%x) grid [m = 2] : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  ^bb0(%gx: tensor<8xf32>):
    %t = block.load %gx [[m]] : tensor<8xf32> -> !block.tile<4xf32>
    // expected-error @+1 {{expected one tile with a map for each of the 2 results of the launch, got 1}}
    block.store %t [[m]] : !block.tile<4xf32>
  }
  kernel.return %y#0, %y#1 : tensor<8xf32>, tensor<8xf32>
}

// -----

kernel.graph @store_in_loop_axis(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = kernel.launch(%x) grid [m = 2] : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf32>):
    %s = block.loop [k = 2] {
      %t = block.load %gx [[m, k]] : tensor<8xf32> -> !block.tile<2xf32>
      block.accumulate sum %t : !block.tile<2xf32>
    } : !block.tile<2xf32>
    // expected-error @+1 {{expected axes of the grid or of a loop around, got 'k'}}
    block.store %s [[m, k]] : !block.tile<2xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @axis_names(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = kernel.launch(%x) grid [m = 2] : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf32>):
    // expected-error @+1 {{expected an axis name that is unique in the launch, got 'm'}}
    %s = block.loop [m = 2] {
      %t = block.load %gx [[m]] : tensor<8xf32> -> !block.tile<4xf32>
      block.accumulate sum %t : !block.tile<4xf32>
    } : !block.tile<4xf32>
    block.store %s [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @loop_types(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = kernel.launch(%x) grid [m = 2] : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf32>):
    // expected-error @+1 {{expected results of the accumulated types ('!block.tile<2xf32>'), got ('!block.tile<4xf32>')}}
    %s = block.loop [k = 2] {
      %t = block.load %gx [[m, k]] : tensor<8xf32> -> !block.tile<2xf32>
      block.accumulate sum %t : !block.tile<2xf32>
    } : !block.tile<4xf32>
    block.store %s [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @running_max_outside(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = kernel.launch(%x) grid [m = 2] : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf32>):
    %t = block.load %gx [[m]] : tensor<8xf32> -> !block.tile<4xf32>
    // expected-error @+1 {{expected to be directly inside of block.loop}}
    %u = block.running_max %t : !block.tile<4xf32>
    block.store %u [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @rescale_max(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = kernel.launch(%x) grid [m = 2] : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf32>):
    %s = block.loop [k = 1] {
      %t = block.load %gx [[m]] : tensor<8xf32> -> !block.tile<4xf32>
      %u = block.running_max %t : !block.tile<4xf32>
      // expected-error @+1 {{expected only sums to be rescaled, got max}}
      block.accumulate max %t rescale %u : !block.tile<4xf32> rescale : !block.tile<4xf32>
    } : !block.tile<4xf32>
    block.store %s [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @rescale_source(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = kernel.launch(%x) grid [m = 2] : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf32>):
    %s = block.loop [k = 1] {
      %t = block.load %gx [[m]] : tensor<8xf32> -> !block.tile<4xf32>
      // expected-error @+1 {{expected to rescale by a block.running_max of the same loop}}
      block.accumulate sum %t rescale %t : !block.tile<4xf32> rescale : !block.tile<4xf32>
    } : !block.tile<4xf32>
    block.store %s [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @accumulate_fn(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = kernel.launch(%x) grid [m = 2] : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf32>):
    %s = block.loop [k = 1] {
      %t = block.load %gx [[m]] : tensor<8xf32> -> !block.tile<4xf32>
      // expected-error @+1 {{expected sum, max or last, got 'mean'}}
      block.accumulate mean %t : !block.tile<4xf32>
    } : !block.tile<4xf32>
    block.store %s [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @computed_type(%x: tensor<8xf16>) -> tensor<8xf16> {
  %y = kernel.launch(%x) grid [m = 2] : (tensor<8xf16>) -> tensor<8xf16> {
  ^bb0(%gx: tensor<8xf16>):
    %t = block.load %gx [[m]] : tensor<8xf16> -> !block.tile<4xf16>
    // expected-error @+1 {{expected a result of element type 'f32', got 'f16'}}
    %u = block.unary exp %t : (!block.tile<4xf16>) -> !block.tile<4xf16>
    block.store %u [[m]] : !block.tile<4xf16>
  }
  kernel.return %y : tensor<8xf16>
}

// -----

kernel.graph @reshape(%x: tensor<8xf16>) -> tensor<8xf16> {
  %y = kernel.launch(%x) grid [] : (tensor<8xf16>) -> tensor<8xf16> {
  ^bb0(%gx: tensor<8xf16>):
    %t = block.load %gx [[]] : tensor<8xf16> -> !block.tile<8xf16>
    // expected-error @+1 {{expected shapes that differ in dimensions of size 1 only, got 8 and 2x4}}
    %u = block.reshape %t : (!block.tile<8xf16>) -> !block.tile<2x4xf16>
    block.store %t [[]] : !block.tile<8xf16>
  }
  kernel.return %y : tensor<8xf16>
}

// -----

kernel.graph @mask_dim(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = kernel.launch(%x) grid [m = 2] : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf32>):
    %t = block.load %gx [[m]] : tensor<8xf32> -> !block.tile<4xf32>
    // expected-error @+1 {{expected a dimension below 1, got 1}}
    %u = block.mask %t dim 1 [m] extent 8 fill 0.0 : !block.tile<4xf32>
    block.store %u [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

// expected-error @+1 {{expected tile sizes of at least 1, got 0}}
func.func private @empty(!block.tile<0x4xf16>)

// -----

// expected-error @+1 {{expected an element type of f16, bf16, f32, f64 or i64, got 'i32'}}
func.func private @integer(!block.tile<4xi32>)

// -----

kernel.graph @integer_tile(%x: tensor<8xi1>) -> tensor<8xf32> {
  %y = kernel.launch(%x) grid [m = 2] : (tensor<8xi1>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xi1>):
    // expected-error @+1 {{expected a result of element type 'f32', got 'f16'}}
    %t = block.load %gx [[m]] : tensor<8xi1> -> !block.tile<4xf16>
    block.store %t [[m]] : !block.tile<4xf16>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @iota_extent() -> tensor<8xf32> {
  %y = kernel.launch() grid [m = 2] : () -> tensor<8xf32> {
    // expected-error @+1 {{expected the parts to cover 9 positions, got 2 parts of 4}}
    %t = block.iota dim 0 [m] extent 9 : !block.tile<4xf32>
    block.store %t [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @iota_dim() -> tensor<8xf32> {
  %y = kernel.launch() grid [m = 2] : () -> tensor<8xf32> {
    // expected-error @+1 {{expected a dimension below 1, got 1}}
    %t = block.iota dim 1 [m] extent 8 : !block.tile<4xf32>
    block.store %t [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @gather_map(%table: tensor<10x8xf32>, %ids: tensor<6xi64>) -> tensor<6x8xf32> {
  %y = kernel.launch(%table, %ids) grid [m = 2] : (tensor<10x8xf32>, tensor<6xi64>) -> tensor<6x8xf32> {
  ^bb0(%gt: tensor<10x8xf32>, %gi: tensor<6xi64>):
    // expected-error @+1 {{expected the parts to cover dimension 0 of size 6, got 2 parts of 2}}
    %t = block.gather %gt, %gi [[m], []] : tensor<10x8xf32>, tensor<6xi64> -> !block.tile<2x8xf32>
    block.store %t [[m], []] : !block.tile<2x8xf32>
  }
  kernel.return %y : tensor<6x8xf32>
}

// -----

kernel.graph @gather_scalar_rows(%table: tensor<10xf32>, %ids: tensor<6xi64>) -> tensor<6xf32> {
  %y = kernel.launch(%table, %ids) grid [m = 2] : (tensor<10xf32>, tensor<6xi64>) -> tensor<6xf32> {
  ^bb0(%gt: tensor<10xf32>, %gi: tensor<6xi64>):
    // expected-error @+1 {{expected a table of rank 2 or more and indices of rank 1 or more}}
    %t = block.gather %gt, %gi [[m]] : tensor<10xf32>, tensor<6xi64> -> !block.tile<3xf32>
    block.store %t [[m]] : !block.tile<3xf32>
  }
  kernel.return %y : tensor<6xf32>
}

// -----

kernel.graph @steps_of_no_axis(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = kernel.launch(%x) grid [m = 2] : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf32>):
    // expected-error @+1 {{expected steps that depend on axes of the grid, got 'n'}}
    %s = block.loop [k = 2] steps affine_map<(d0) -> (0, d0)> of [n] {
      %t = block.load %gx [[m, k]] : tensor<8xf32> -> !block.tile<2xf32>
      block.accumulate sum %t : !block.tile<2xf32>
    } : !block.tile<2xf32>
    %u = block.constant 1.0 : !block.tile<f32>
    %v = block.load %gx [[m]] : tensor<8xf32> -> !block.tile<4xf32>
    block.store %v [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @steps_of_the_loop(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = kernel.launch(%x) grid [m = 2] : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf32>):
    // expected-error @+1 {{expected steps that depend on axes of the grid, got 'k'}}
    %s = block.loop [k = 2] steps affine_map<(d0) -> (0, d0)> of [k] {
      %t = block.load %gx [[m, k]] : tensor<8xf32> -> !block.tile<2xf32>
      block.accumulate sum %t : !block.tile<2xf32>
    } : !block.tile<2xf32>
    %u = block.constant 1.0 : !block.tile<f32>
    %v = block.load %gx [[m]] : tensor<8xf32> -> !block.tile<4xf32>
    block.store %v [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @steps_twice(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = kernel.launch(%x) grid [m = 2] : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf32>):
    // expected-error @+1 {{expected steps that name an axis once, got 'm' twice}}
    %s = block.loop [k = 2] steps affine_map<(d0, d1) -> (0, d0 + d1)> of [m, m] {
      %t = block.load %gx [[m, k]] : tensor<8xf32> -> !block.tile<2xf32>
      block.accumulate sum %t : !block.tile<2xf32>
    } : !block.tile<2xf32>
    %u = block.constant 1.0 : !block.tile<f32>
    %v = block.load %gx [[m]] : tensor<8xf32> -> !block.tile<4xf32>
    block.store %v [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @steps_without_end(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = kernel.launch(%x) grid [m = 2] : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf32>):
    // expected-error @+1 {{expected steps from 1 positions and 0 integers to a first one and an end, got affine_map<(d0) -> (d0)>}}
    %s = block.loop [k = 2] steps affine_map<(d0) -> (d0)> of [m] {
      %t = block.load %gx [[m, k]] : tensor<8xf32> -> !block.tile<2xf32>
      block.accumulate sum %t : !block.tile<2xf32>
    } : !block.tile<2xf32>
    %u = block.constant 1.0 : !block.tile<f32>
    %v = block.load %gx [[m]] : tensor<8xf32> -> !block.tile<4xf32>
    block.store %v [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @steps_of_other_positions(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = kernel.launch(%x) grid [m = 2] : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf32>):
    // expected-error @+1 {{expected steps from 1 positions and 0 integers to a first one and an end, got affine_map<(d0, d1) -> (d0, d1)>}}
    %s = block.loop [k = 2] steps affine_map<(d0, d1) -> (d0, d1)> of [m] {
      %t = block.load %gx [[m, k]] : tensor<8xf32> -> !block.tile<2xf32>
      block.accumulate sum %t : !block.tile<2xf32>
    } : !block.tile<2xf32>
    %u = block.constant 1.0 : !block.tile<f32>
    %v = block.load %gx [[m]] : tensor<8xf32> -> !block.tile<4xf32>
    block.store %v [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @steps_by_what_is_left(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = kernel.launch(%x) grid [m = 2] : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf32>):
    // expected-error @+1 {{expected steps as sums of multiples, divided by constants and rounded down, got affine_map<(d0) -> (0, d0 mod 2)>}}
    %s = block.loop [k = 2] steps affine_map<(d0) -> (0, d0 mod 2)> of [m] {
      %t = block.load %gx [[m, k]] : tensor<8xf32> -> !block.tile<2xf32>
      block.accumulate sum %t : !block.tile<2xf32>
    } : !block.tile<2xf32>
    %u = block.constant 1.0 : !block.tile<f32>
    %v = block.load %gx [[m]] : tensor<8xf32> -> !block.tile<4xf32>
    block.store %v [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @scalar_with_overhang(%x: tensor<8xf32>, %n: tensor<4xi64>) -> tensor<8xf32> {
  %y = kernel.launch(%x, %n) grid [m = 2] : (tensor<8xf32>, tensor<4xi64>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf32>, %gn: tensor<4xi64>):
    // expected-error @+1 {{expected parts that cover dimension 0 of size 4 without overhang, got 2 parts of 3}}
    %l = block.scalar max %gn [[m]] of [3] within [0, 8] : tensor<4xi64>
    %s = block.loop [k = 2] steps affine_map<()[s0] -> (0, s0)> of [] with (%l) {
      %t = block.load %gx [[m, k]] : tensor<8xf32> -> !block.tile<2xf32>
      block.accumulate sum %t : !block.tile<2xf32>
    } : !block.tile<2xf32>
    %v = block.load %gx [[m]] : tensor<8xf32> -> !block.tile<4xf32>
    block.store %v [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @scalar_of_a_loop(%x: tensor<8xf32>, %n: tensor<4xi64>) -> tensor<8xf32> {
  %y = kernel.launch(%x, %n) grid [m = 2] : (tensor<8xf32>, tensor<4xi64>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf32>, %gn: tensor<4xi64>):
    // expected-error @+1 {{expected axes of the grid or of a loop around, got 'k'}}
    %l = block.scalar max %gn [[k]] of [2] within [0, 8] : tensor<4xi64>
    %s = block.loop [k = 2] steps affine_map<()[s0] -> (0, s0)> of [] with (%l) {
      %t = block.load %gx [[m, k]] : tensor<8xf32> -> !block.tile<2xf32>
      block.accumulate sum %t : !block.tile<2xf32>
    } : !block.tile<2xf32>
    %v = block.load %gx [[m]] : tensor<8xf32> -> !block.tile<4xf32>
    block.store %v [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @scalar_of_another_rank(%x: tensor<8xf32>, %n: tensor<4xi64>) -> tensor<8xf32> {
  %y = kernel.launch(%x, %n) grid [m = 2] : (tensor<8xf32>, tensor<4xi64>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf32>, %gn: tensor<4xi64>):
    // expected-error @+1 {{expected a map and a part of the tensor's rank 1, got 2 and 2}}
    %l = block.scalar max %gn [[m], []] of [2, 1] within [0, 8] : tensor<4xi64>
    %s = block.loop [k = 2] steps affine_map<()[s0] -> (0, s0)> of [] with (%l) {
      %t = block.load %gx [[m, k]] : tensor<8xf32> -> !block.tile<2xf32>
      block.accumulate sum %t : !block.tile<2xf32>
    } : !block.tile<2xf32>
    %v = block.load %gx [[m]] : tensor<8xf32> -> !block.tile<4xf32>
    block.store %v [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @scalar_without_numbers(%x: tensor<8xf32>, %n: tensor<4xi64>) -> tensor<8xf32> {
  %y = kernel.launch(%x, %n) grid [m = 2] : (tensor<8xf32>, tensor<4xi64>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf32>, %gn: tensor<4xi64>):
    // expected-error @+1 {{expected bounds in order, from -2^31 to 2^31, got [8, 0]}}
    %l = block.scalar min %gn [[m]] of [2] within [8, 0] : tensor<4xi64>
    %s = block.loop [k = 2] steps affine_map<()[s0] -> (0, s0)> of [] with (%l) {
      %t = block.load %gx [[m, k]] : tensor<8xf32> -> !block.tile<2xf32>
      block.accumulate sum %t : !block.tile<2xf32>
    } : !block.tile<2xf32>
    %v = block.load %gx [[m]] : tensor<8xf32> -> !block.tile<4xf32>
    block.store %v [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @steps_of_another_integer(%x: tensor<8xf32>, %n: tensor<4xi64>) -> tensor<8xf32> {
  %y = kernel.launch(%x, %n) grid [m = 2] : (tensor<8xf32>, tensor<4xi64>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf32>, %gn: tensor<4xi64>):
    %l = arith.constant 3 : index
    // expected-error @+1 {{expected steps that depend on integers which the block reads (block.scalar), got another value}}
    %s = block.loop [k = 2] steps affine_map<()[s0] -> (0, s0)> of [] with (%l) {
      %t = block.load %gx [[m, k]] : tensor<8xf32> -> !block.tile<2xf32>
      block.accumulate sum %t : !block.tile<2xf32>
    } : !block.tile<2xf32>
    %v = block.load %gx [[m]] : tensor<8xf32> -> !block.tile<4xf32>
    block.store %v [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @steps_of_too_many_integers(%x: tensor<8xf32>, %n: tensor<4xi64>) -> tensor<8xf32> {
  %y = kernel.launch(%x, %n) grid [m = 2] : (tensor<8xf32>, tensor<4xi64>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf32>, %gn: tensor<4xi64>):
    %l = block.scalar max %gn [[m]] of [2] within [0, 8] : tensor<4xi64>
    // expected-error @+1 {{expected steps from 0 positions and 1 integers to a first one and an end}}
    %s = block.loop [k = 2] steps affine_map<()[s0, s1] -> (s1, s0)> of [] with (%l) {
      %t = block.load %gx [[m, k]] : tensor<8xf32> -> !block.tile<2xf32>
      block.accumulate sum %t : !block.tile<2xf32>
    } : !block.tile<2xf32>
    %v = block.load %gx [[m]] : tensor<8xf32> -> !block.tile<4xf32>
    block.store %v [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @integers_without_steps(%x: tensor<8xf32>, %n: tensor<4xi64>) -> tensor<8xf32> {
  %y = kernel.launch(%x, %n) grid [m = 2] : (tensor<8xf32>, tensor<4xi64>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf32>, %gn: tensor<4xi64>):
    %l = block.scalar max %gn [[m]] of [2] within [0, 8] : tensor<4xi64>
    // expected-error @+1 {{expected integers together with the steps that they bound}}
    %s = block.loop [k = 2] with (%l) {
      %t = block.load %gx [[m, k]] : tensor<8xf32> -> !block.tile<2xf32>
      block.accumulate sum %t : !block.tile<2xf32>
    } : !block.tile<2xf32>
    %v = block.load %gx [[m]] : tensor<8xf32> -> !block.tile<4xf32>
    block.store %v [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @tile_of_eight_bits(%x: tensor<8xf8E4M3FN>) -> tensor<8xf32> {
  %y = kernel.launch(%x) grid [m = 2] : (tensor<8xf8E4M3FN>) -> tensor<8xf32> {
  ^bb0(%gx: tensor<8xf8E4M3FN>):
    // expected-error @+1 {{expected a result of element type 'f16', got 'f32'}}
    %t = block.load %gx [[m]] : tensor<8xf8E4M3FN> -> !block.tile<4xf32>
    block.store %t [[m]] : !block.tile<4xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

// expected-error @+1 {{expected an element type of f16, bf16, f32, f64 or i64, got 'f8E4M3FN'}}
func.func private @held(!block.tile<8x8xf8E4M3FN>)

// -----

kernel.graph @matmul_tf32(%x: tensor<16x16xf16>) -> tensor<16x16xf32> {
  %y = kernel.launch(%x) grid [] : (tensor<16x16xf16>) -> tensor<16x16xf32> {
  ^bb0(%gx: tensor<16x16xf16>):
    %t = block.load %gx [[], []] : tensor<16x16xf16> -> !block.tile<16x16xf16>
    // expected-error @+1 {{expected factors of f32 to be rounded to TF32, got '!block.tile<16x16xf16>'}}
    %p = block.matmul %t, %t tf32 : (!block.tile<16x16xf16>, !block.tile<16x16xf16>) -> !block.tile<16x16xf32>
    block.store %p [[], []] : !block.tile<16x16xf32>
  }
  kernel.return %y : tensor<16x16xf32>
}

// -----

kernel.graph @cumulate_dim(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %y = kernel.launch(%x) grid [m = 2] : (tensor<8x8xf32>) -> tensor<8x8xf32> {
  ^bb0(%gx: tensor<8x8xf32>):
    %t = block.load %gx [[m], []] : tensor<8x8xf32> -> !block.tile<4x8xf32>
    // expected-error @+1 {{expected a dimension below 2, got 2}}
    %c = block.cumulate sum %t dim 2 : (!block.tile<4x8xf32>) -> !block.tile<4x8xf32>
    block.store %c [[m], []] : !block.tile<4x8xf32>
  }
  kernel.return %y : tensor<8x8xf32>
}

// -----

kernel.graph @argsort_type(%x: tensor<8x8xf16>) -> tensor<8x8xi64> {
  %y = kernel.launch(%x) grid [m = 2] : (tensor<8x8xf16>) -> tensor<8x8xi64> {
  ^bb0(%gx: tensor<8x8xf16>):
    %t = block.load %gx [[m], []] : tensor<8x8xf16> -> !block.tile<4x8xf16>
    // expected-error @+1 {{expected elements of type f32 or i64, got 'f16'}}
    %c = block.argsort %t dim 1 : (!block.tile<4x8xf16>) -> !block.tile<4x8xi64>
    block.store %c [[m], []] : !block.tile<4x8xi64>
  }
  kernel.return %y : tensor<8x8xi64>
}

// -----

kernel.graph @cumulate_type(%x: tensor<8x8xf16>) -> tensor<8x8xf16> {
  %y = kernel.launch(%x) grid [m = 2] : (tensor<8x8xf16>) -> tensor<8x8xf16> {
  ^bb0(%gx: tensor<8x8xf16>):
    %t = block.load %gx [[m], []] : tensor<8x8xf16> -> !block.tile<4x8xf16>
    // expected-error @+1 {{expected a result of element type 'f32', got 'f16'}}
    %c = block.cumulate sum %t dim 1 : (!block.tile<4x8xf16>) -> !block.tile<4x8xf16>
    block.store %c [[m], []] : !block.tile<4x8xf16>
  }
  kernel.return %y : tensor<8x8xf16>
}

// -----

kernel.graph @integers_map(%a: tensor<6x8xi64>) -> tensor<6x8xi64> {
  %y = kernel.launch(%a) grid [m = 2] : (tensor<6x8xi64>) -> tensor<6x8xi64> {
  ^bb0(%ga: tensor<6x8xi64>):
    // expected-error @+1 {{expected the parts to cover dimension 0 of size 6, got 2 parts of 2}}
    %t = block.integers %ga [[m], []] of [6, 8] ["load 0 1", "neg 0 : i64"] : (tensor<6x8xi64>) -> !block.tile<2x8xi64>
    block.store %t [[m], []] : !block.tile<2x8xi64>
  }
  kernel.return %y : tensor<6x8xi64>
}

// -----

kernel.graph @integers_tile(%a: tensor<6x8xi64>) -> tensor<6x8xf16> {
  %y = kernel.launch(%a) grid [m = 3] : (tensor<6x8xi64>) -> tensor<6x8xf16> {
  ^bb0(%ga: tensor<6x8xi64>):
    // expected-error @+1 {{expected a result of element type 'f32', got 'f16'}}
    %t = block.integers %ga [[m], []] of [6, 8] ["load 0 1", "neg 0 : i64"] : (tensor<6x8xi64>) -> !block.tile<2x8xf16>
    block.store %t [[m], []] : !block.tile<2x8xf16>
  }
  kernel.return %y : tensor<6x8xf16>
}

// -----

kernel.graph @integers_truth(%a: tensor<6x8xi64>) -> tensor<6x8xi64> {
  %y = kernel.launch(%a) grid [m = 3] : (tensor<6x8xi64>) -> tensor<6x8xi64> {
  ^bb0(%ga: tensor<6x8xi64>):
    // expected-error @+1 {{expected a result of element type 'f32', got 'i64'}}
    %t = block.integers %ga [[m], []] of [6, 8] ["load 0 1", "not 0 : i1"] : (tensor<6x8xi64>) -> !block.tile<2x8xi64>
    block.store %t [[m], []] : !block.tile<2x8xi64>
  }
  kernel.return %y : tensor<6x8xi64>
}

// -----

kernel.graph @integers_position(%a: tensor<6x8xi64>) -> tensor<6x8xi64> {
  %y = kernel.launch(%a) grid [m = 3] : (tensor<6x8xi64>) -> tensor<6x8xi64> {
  ^bb0(%ga: tensor<6x8xi64>):
    // expected-error @+1 {{expected positions along one of 2 dimensions, got 2}}
    %t = block.integers %ga [[m], []] of [6, 8] ["load 0 1", "position 2 : i64", "add 0 1 : i64"] : (tensor<6x8xi64>) -> !block.tile<2x8xi64>
    block.store %t [[m], []] : !block.tile<2x8xi64>
  }
  kernel.return %y : tensor<6x8xi64>
}

// -----

kernel.graph @integers_position_late(%a: tensor<6x8xi64>) -> tensor<6x8xi64> {
  %y = kernel.launch(%a) grid [m = 3] : (tensor<6x8xi64>) -> tensor<6x8xi64> {
  ^bb0(%ga: tensor<6x8xi64>):
    // expected-error @+1 {{step 2: expected loads and tables first, then positions, then all other steps, got 'position 1 : i64'}}
    %t = block.integers %ga [[m], []] of [6, 8] ["load 0 1", "neg 0 : i64", "position 1 : i64"] : (tensor<6x8xi64>) -> !block.tile<2x8xi64>
    block.store %t [[m], []] : !block.tile<2x8xi64>
  }
  kernel.return %y : tensor<6x8xi64>
}

// -----

kernel.graph @integers_computed(%a: tensor<6x8xi64>) -> tensor<6x8xf32> {
  %y = kernel.launch(%a) grid [m = 3] : (tensor<6x8xi64>) -> tensor<6x8xf32> {
  ^bb0(%ga: tensor<6x8xi64>):
    %t = block.integers %ga [[m], []] of [6, 8] ["load 0 1", "neg 0 : i64"] : (tensor<6x8xi64>) -> !block.tile<2x8xi64>
    // expected-error @+1 {{expected tiles of floats, got '!block.tile<2x8xi64>', of which there are only totals and formulas}}
    %u = block.unary exp %t : (!block.tile<2x8xi64>) -> !block.tile<2x8xf32>
    block.store %u [[m], []] : !block.tile<2x8xf32>
  }
  kernel.return %y : tensor<6x8xf32>
}

// -----

kernel.graph @integers_cast(%a: tensor<6x8xi64>) -> tensor<6x8xf16> {
  %y = kernel.launch(%a) grid [m = 3] : (tensor<6x8xi64>) -> tensor<6x8xf16> {
  ^bb0(%ga: tensor<6x8xi64>):
    %t = block.integers %ga [[m], []] of [6, 8] ["load 0 1", "neg 0 : i64"] : (tensor<6x8xi64>) -> !block.tile<2x8xi64>
    // expected-error @+1 {{expected tiles of floats, got '!block.tile<2x8xi64>', of which there are only totals and formulas}}
    %u = block.cast %t : (!block.tile<2x8xi64>) -> !block.tile<2x8xf16>
    block.store %u [[m], []] : !block.tile<2x8xf16>
  }
  kernel.return %y : tensor<6x8xf16>
}

// -----

kernel.graph @integers_stored(%a: tensor<6x8xi64>) -> tensor<6x8xf32> {
  %y = kernel.launch(%a) grid [m = 3] : (tensor<6x8xi64>) -> tensor<6x8xf32> {
  ^bb0(%ga: tensor<6x8xi64>):
    %t = block.integers %ga [[m], []] of [6, 8] ["load 0 1", "neg 0 : i64"] : (tensor<6x8xi64>) -> !block.tile<2x8xi64>
    // expected-error @+1 {{expected a tile of i64 to be stored to a tensor of integers, got 'tensor<6x8xf32>'}}
    block.store %t [[m], []] : !block.tile<2x8xi64>
  }
  kernel.return %y : tensor<6x8xf32>
}

// -----

kernel.graph @totals_of_another_type(%a: tensor<6x8xi64>) -> tensor<6x1xf32> {
  %y = kernel.launch(%a) grid [m = 3] : (tensor<6x8xi64>) -> tensor<6x1xf32> {
  ^bb0(%ga: tensor<6x8xi64>):
    %t = block.load %ga [[m], []] : tensor<6x8xi64> -> !block.tile<2x8xi64>
    // expected-error @+1 {{expected a result of element type 'i64', got 'f32'}}
    %u = block.reduce sum %t dims [1] : (!block.tile<2x8xi64>) -> !block.tile<2x1xf32>
    block.store %u [[m], []] : !block.tile<2x1xf32>
  }
  kernel.return %y : tensor<6x1xf32>
}

// -----

kernel.graph @rescaled_integers(%a: tensor<6x8xi64>, %x: tensor<6x8xf32>) -> tensor<6x1xi64> {
  %y = kernel.launch(%a, %x) grid [m = 3] : (tensor<6x8xi64>, tensor<6x8xf32>) -> tensor<6x1xi64> {
  ^bb0(%ga: tensor<6x8xi64>, %gx: tensor<6x8xf32>):
    %s = block.loop [k = 8] {
      %t = block.load %ga [[m], [k]] : tensor<6x8xi64> -> !block.tile<2x1xi64>
      %u = block.load %gx [[m], [k]] : tensor<6x8xf32> -> !block.tile<2x1xf32>
      %n = block.running_max %u : !block.tile<2x1xf32>
      // expected-error @+1 {{expected a sum of floats to be rescaled, got '!block.tile<2x1xi64>'}}
      block.accumulate sum %t rescale %n : !block.tile<2x1xi64> rescale : !block.tile<2x1xf32>
    } : !block.tile<2x1xi64>
    block.store %s [[m], []] : !block.tile<2x1xi64>
  }
  kernel.return %y : tensor<6x1xi64>
}

// -----

kernel.graph @mapped_dimensions(%a: tensor<6x8xi64>) -> tensor<6x8xi64> {
  %y = kernel.launch(%a) grid [m = 3] : (tensor<6x8xi64>) -> tensor<6x8xi64> {
  ^bb0(%ga: tensor<6x8xi64>):
    %t = block.load %ga [[m], []] : tensor<6x8xi64> -> !block.tile<2x8xi64>
    // expected-error @+1 {{expected loads without dimensions, of tiles of i64 or f32, got '!block.tile<2x8xi64>'}}
    %u = block.map_integers %t ["load 0 1", "neg 0 : i64"] : (!block.tile<2x8xi64>) -> !block.tile<2x8xi64>
    block.store %u [[m], []] : !block.tile<2x8xi64>
  }
  kernel.return %y : tensor<6x8xi64>
}

// -----

kernel.graph @mapped_without_a_load(%a: tensor<6x8xi64>) -> tensor<6x8xi64> {
  %y = kernel.launch(%a) grid [m = 3] : (tensor<6x8xi64>) -> tensor<6x8xi64> {
  ^bb0(%ga: tensor<6x8xi64>):
    %t = block.load %ga [[m], []] : tensor<6x8xi64> -> !block.tile<2x8xi64>
    // expected-error @+1 {{expected one load for each of the 2 operands and no positions, got 1 and 0}}
    %u = block.map_integers %t, %t ["load", "neg 0 : i64"] : (!block.tile<2x8xi64>, !block.tile<2x8xi64>) -> !block.tile<2x8xi64>
    block.store %u [[m], []] : !block.tile<2x8xi64>
  }
  kernel.return %y : tensor<6x8xi64>
}

// -----

kernel.graph @mapped_shapes(%a: tensor<6x8xi64>) -> tensor<6x1xi64> {
  %y = kernel.launch(%a) grid [m = 3] : (tensor<6x8xi64>) -> tensor<6x1xi64> {
  ^bb0(%ga: tensor<6x8xi64>):
    %t = block.load %ga [[m], []] : tensor<6x8xi64> -> !block.tile<2x8xi64>
    // expected-error @+1 {{expected operands that broadcast to 2x1, got 2x8}}
    %u = block.map_integers %t ["load", "neg 0 : i64"] : (!block.tile<2x8xi64>) -> !block.tile<2x1xi64>
    block.store %u [[m], []] : !block.tile<2x1xi64>
  }
  kernel.return %y : tensor<6x1xi64>
}

// -----

kernel.graph @total_axes(%x: tensor<2x16xf32>) -> tensor<2x16xf32> {
  %y = kernel.launch(%x) grid [m = 2, c = 4] schedule <warps = 4, stages = 1, cluster = 4> : (tensor<2x16xf32>) -> tensor<2x16xf32> {
  ^bb0(%gx: tensor<2x16xf32>):
    %t = block.load %gx [[m], [c]] : tensor<2x16xf32> -> !block.tile<1x4xf32>
    %r = block.reduce max %t dims [1] : (!block.tile<1x4xf32>) -> !block.tile<1x1xf32>
    // expected-error @+1 {{expected one axis, got 2}}
    %u = block.cluster_reduce sum %r along [m, c] : !block.tile<1x1xf32>
    block.store %t [[m], [c]] : !block.tile<1x4xf32>
  }
  kernel.return %y : tensor<2x16xf32>
}

// -----

kernel.graph @total_axis(%x: tensor<2x16xf32>) -> tensor<2x16xf32> {
  %y = kernel.launch(%x) grid [m = 2, c = 4] schedule <warps = 4, stages = 1, cluster = 4> : (tensor<2x16xf32>) -> tensor<2x16xf32> {
  ^bb0(%gx: tensor<2x16xf32>):
    %t = block.load %gx [[m], [c]] : tensor<2x16xf32> -> !block.tile<1x4xf32>
    %r = block.reduce max %t dims [1] : (!block.tile<1x4xf32>) -> !block.tile<1x1xf32>
    // expected-error @+1 {{expected an axis of the grid, got 'k'}}
    %u = block.cluster_reduce sum %r along [k] : !block.tile<1x1xf32>
    block.store %t [[m], [c]] : !block.tile<1x4xf32>
  }
  kernel.return %y : tensor<2x16xf32>
}

// -----

kernel.graph @total_blocks(%x: tensor<2x16xf32>) -> tensor<2x16xf32> {
  %y = kernel.launch(%x) grid [m = 2, c = 4] schedule <warps = 4, stages = 1, cluster = 4> : (tensor<2x16xf32>) -> tensor<2x16xf32> {
  ^bb0(%gx: tensor<2x16xf32>):
    %t = block.load %gx [[m], [c]] : tensor<2x16xf32> -> !block.tile<1x4xf32>
    %r = block.reduce max %t dims [1] : (!block.tile<1x4xf32>) -> !block.tile<1x1xf32>
    // expected-error @+1 {{expected a schedule with engine = warp and clusters of the 2 blocks along 'm', got #kernel.schedule<warps = 4, stages = 1, cluster = 4>}}
    %u = block.cluster_reduce sum %r along [m] : !block.tile<1x1xf32>
    block.store %t [[m], [c]] : !block.tile<1x4xf32>
  }
  kernel.return %y : tensor<2x16xf32>
}

// -----

kernel.graph @total_rescaled(%x: tensor<2x16xf32>) -> tensor<2x16xf32> {
  %y = kernel.launch(%x) grid [m = 2, c = 4] schedule <warps = 4, stages = 1, cluster = 4> : (tensor<2x16xf32>) -> tensor<2x16xf32> {
  ^bb0(%gx: tensor<2x16xf32>):
    %t = block.load %gx [[m], [c]] : tensor<2x16xf32> -> !block.tile<1x4xf32>
    %r = block.reduce max %t dims [1] : (!block.tile<1x4xf32>) -> !block.tile<1x1xf32>
    // expected-error @+1 {{expected a sum to rescale, got a maximum}}
    %u = block.cluster_reduce max %r rescale %r along [c] : !block.tile<1x1xf32> rescale : !block.tile<1x1xf32>
    block.store %t [[m], [c]] : !block.tile<1x4xf32>
  }
  kernel.return %y : tensor<2x16xf32>
}

// -----

kernel.graph @total_shape(%x: tensor<2x16xf32>) -> tensor<2x16xf32> {
  %y = kernel.launch(%x) grid [m = 2, c = 4] schedule <warps = 4, stages = 1, cluster = 4> : (tensor<2x16xf32>) -> tensor<2x16xf32> {
  ^bb0(%gx: tensor<2x16xf32>):
    %t = block.load %gx [[m], [c]] : tensor<2x16xf32> -> !block.tile<1x4xf32>
    %r = block.reduce max %t dims [1] : (!block.tile<1x4xf32>) -> !block.tile<1x1xf32>
    // expected-error @+1 {{expected a maximum that broadcasts to 1x1, got 1x4}}
    %u = block.cluster_reduce sum %r rescale %t along [c] : !block.tile<1x1xf32> rescale : !block.tile<1x4xf32>
    block.store %t [[m], [c]] : !block.tile<1x4xf32>
  }
  kernel.return %y : tensor<2x16xf32>
}

// -----

kernel.graph @total_in_loop(%x: tensor<2x16xf32>) -> tensor<2x1xf32> {
  %y = kernel.launch(%x) grid [m = 2, c = 4] : (tensor<2x16xf32>) -> tensor<2x1xf32> {
  ^bb0(%gx: tensor<2x16xf32>):
    %s = block.loop [k = 4] {
      %t = block.load %gx [[m], [c, k]] : tensor<2x16xf32> -> !block.tile<1x1xf32>
      // expected-error @+1 {{expected to be in the body of kernel.launch, outside of loops}}
      %u = block.cluster_reduce sum %t along [c] : !block.tile<1x1xf32>
      block.accumulate sum %u : !block.tile<1x1xf32>
    } : !block.tile<1x1xf32>
    block.store %s [[m], [c]] : !block.tile<1x1xf32>
  }
  kernel.return %y : tensor<2x1xf32>
}
