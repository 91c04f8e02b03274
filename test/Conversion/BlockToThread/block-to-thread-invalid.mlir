// RUN: mirage-opt %s --mirage-convert-block-to-thread --split-input-file --verify-diagnostics

kernel.graph @no_layout(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %y = kernel.launch(%x) grid [] schedule <warps = 1, stages = 1> : (tensor<4x8xf16>) -> tensor<4x8xf16> {
  ^bb0(%gx: tensor<4x8xf16>):
    // expected-error @below {{expected a layout (mirage-assign-layouts), got '!block.tile<4x8xf16>'}}
    %t = block.load %gx [[], []] : tensor<4x8xf16> -> !block.tile<4x8xf16>
    block.store %t [[], []] : !block.tile<4x8xf16>
  }
  kernel.return %y : tensor<4x8xf16>
}

// -----

kernel.graph @no_schedule(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  // expected-error @below {{expected a schedule (#kernel.schedule), got none}}
  %y = kernel.launch(%x) grid [] : (tensor<4x8xf16>) -> tensor<4x8xf16> {
  ^bb0(%gx: tensor<4x8xf16>):
    %t = block.load %gx [[], []] : tensor<4x8xf16> -> !block.tile<4x8xf16>
    block.store %t [[], []] : !block.tile<4x8xf16>
  }
  kernel.return %y : tensor<4x8xf16>
}

// -----

// expected-error @below {{expected no kernel.alternatives (mirage-select chooses)}}
kernel.graph @alternatives(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = kernel.alternatives(%x) : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>):
    %0 = kernel.unary square %a : (tensor<8xf32>) -> tensor<8xf32>
    kernel.yield %0 : tensor<8xf32>
  }
  kernel.return %y : tensor<8xf32>
}

// -----

kernel.graph @wide(%x: tensor<8x4xf64>) -> tensor<8x2xf64> {
  // expected-error @below {{expected f16, bf16 or f32 elements, got 'tensor<8x4xf64>'}}
  %y = kernel.slice %x [0, 1] : (tensor<8x4xf64>) -> tensor<8x2xf64>
  kernel.return %y : tensor<8x2xf64>
}

// -----

kernel.graph @long(%x: tensor<2x1073741824xf16>) -> tensor<2x2147483648xf16> {
  // expected-error @below {{expected fewer than 2^31 elements from the dimension that is joined to the last one, got 2147483648}}
  %y = kernel.concat %x, %x dim 1 : (tensor<2x1073741824xf16>, tensor<2x1073741824xf16>) -> tensor<2x2147483648xf16>
  kernel.return %y : tensor<2x2147483648xf16>
}

// -----

kernel.graph @dynamic_copy(%x: tensor<8x4xf16>) -> tensor<8x3xf16>
    attributes {dynamic = #kernel.dynamic<bound = 8, tensors = [0]>} {
  // expected-error @below {{expected dynamic tensors in launches, and in reshapes, slices and joins that are addresses}}
  %y = kernel.slice %x [0, 1] : (tensor<8x4xf16>) -> tensor<8x3xf16>
  kernel.return %y : tensor<8x3xf16>
}

// -----

kernel.graph @not_stored(%x: tensor<8x16xf16>, %at: tensor<1xi64>, %r: tensor<1x16xf16>) -> (tensor<8x16xf16>, tensor<8x16xf16>) {
  // expected-error @below {{expected a row that a launch computes and nothing else reads, and a tensor and an index that are inputs of the graph, the tensor's only use being this one (mirage-view-tensors)}}
  %0 = kernel.index_copy %x, %at, %r dim 0 : (tensor<8x16xf16>, tensor<1xi64>, tensor<1x16xf16>) -> tensor<8x16xf16>
  %1 = kernel.slice %x [0, 0] : (tensor<8x16xf16>) -> tensor<8x16xf16>
  kernel.return %0, %1 : tensor<8x16xf16>, tensor<8x16xf16>
}
