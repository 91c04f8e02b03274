// RUN: mirage-opt %s --mirage-choose-engine --split-input-file --verify-diagnostics | FileCheck %s
// RUN: mirage-opt %s --mirage-choose-engine=chip=sm_80 --split-input-file 2>/dev/null | FileCheck %s --check-prefix=OLD

// OLD: schedule <warps = 8, stages = 4> :
// OLD-NOT: engine

// CHECK-LABEL: kernel.graph @kept
// CHECK: schedule <warps = 8, stages = 4, engine = warpgroup>
kernel.graph @kept(%a: tensor<256x512xf16>, %b: tensor<512x512xf16>) -> tensor<256x512xf32> {
  %r = kernel.launch(%a, %b) grid [m = 2, n = 2] schedule <warps = 8, stages = 4, engine = warpgroup> : (tensor<256x512xf16>, tensor<512x512xf16>) -> tensor<256x512xf32> {
  ^bb0(%ga: tensor<256x512xf16>, %gb: tensor<512x512xf16>):
    %s = block.loop [k = 8] {
      %x = block.load %ga [[m], [k]] : tensor<256x512xf16> -> !block.tile<128x64xf16>
      %y = block.load %gb [[k], [n]] : tensor<512x512xf16> -> !block.tile<64x256xf16>
      %p = block.matmul %x, %y : (!block.tile<128x64xf16>, !block.tile<64x256xf16>) -> !block.tile<128x256xf32>
      block.accumulate sum %p : !block.tile<128x256xf32>
    } : !block.tile<128x256xf32>
    block.store %s [[m], [n]] : !block.tile<128x256xf32>
  }
  kernel.return %r : tensor<256x512xf32>
}

// -----

// Rows of 264 bytes are not multiples of 16.
// CHECK-LABEL: kernel.graph @unaligned
// CHECK: schedule <warps = 4, stages = 2> :
kernel.graph @unaligned(%a: tensor<64x64xf16>, %b: tensor<64x132xf16>) -> tensor<64x132xf32> {
  // expected-remark @+1 {{expected rows of the tensor that start at multiples of 16 bytes, got tensor<64x132xf16>}}
  %r = kernel.launch(%a, %b) grid [n = 3] schedule <warps = 4, stages = 2, engine = warpgroup> : (tensor<64x64xf16>, tensor<64x132xf16>) -> tensor<64x132xf32> {
  ^bb0(%ga: tensor<64x64xf16>, %gb: tensor<64x132xf16>):
    %s = block.loop [k = 4] {
      %x = block.load %ga [[], [k]] : tensor<64x64xf16> -> !block.tile<64x16xf16>
      %y = block.load %gb [[k], [n]] : tensor<64x132xf16> -> !block.tile<16x64xf16>
      %p = block.matmul %x, %y : (!block.tile<64x16xf16>, !block.tile<16x64xf16>) -> !block.tile<64x64xf32>
      block.accumulate sum %p : !block.tile<64x64xf32>
    } : !block.tile<64x64xf32>
    block.store %s [[], [n]] : !block.tile<64x64xf32>
  }
  kernel.return %r : tensor<64x132xf32>
}

// -----

// CHECK-LABEL: kernel.graph @few_rows
// CHECK: schedule <warps = 4, stages = 2> :
kernel.graph @few_rows(%a: tensor<16x64xf16>, %b: tensor<64x64xf16>) -> tensor<16x64xf32> {
  // expected-remark @+1 {{expected a product that 4 warps can share in parts of 64 rows and a multiple of 8 columns, got !block.tile<16x64xf32>}}
  %r = kernel.launch(%a, %b) grid [] schedule <warps = 4, stages = 2, engine = warpgroup> : (tensor<16x64xf16>, tensor<64x64xf16>) -> tensor<16x64xf32> {
  ^bb0(%ga: tensor<16x64xf16>, %gb: tensor<64x64xf16>):
    %s = block.loop [k = 4] {
      %x = block.load %ga [[], [k]] : tensor<16x64xf16> -> !block.tile<16x16xf16>
      %y = block.load %gb [[k], []] : tensor<64x64xf16> -> !block.tile<16x64xf16>
      %p = block.matmul %x, %y : (!block.tile<16x16xf16>, !block.tile<16x64xf16>) -> !block.tile<16x64xf32>
      block.accumulate sum %p : !block.tile<16x64xf32>
    } : !block.tile<16x64xf32>
    block.store %s [[], []] : !block.tile<16x64xf32>
  }
  kernel.return %r : tensor<16x64xf32>
}

// -----

// A left factor may be computed: it comes from registers.
// CHECK-LABEL: kernel.graph @computed_factor
// CHECK: schedule <warps = 4, stages = 2, engine = warpgroup> :
kernel.graph @computed_factor(%a: tensor<64x64xf16>, %b: tensor<64x64xf16>) -> tensor<64x64xf32> {
  %r = kernel.launch(%a, %b) grid [] schedule <warps = 4, stages = 2, engine = warpgroup> : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf32> {
  ^bb0(%ga: tensor<64x64xf16>, %gb: tensor<64x64xf16>):
    %s = block.loop [k = 4] {
      %x = block.load %ga [[], [k]] : tensor<64x64xf16> -> !block.tile<64x16xf16>
      %u = block.unary silu %x : (!block.tile<64x16xf16>) -> !block.tile<64x16xf32>
      %v = block.cast %u : (!block.tile<64x16xf32>) -> !block.tile<64x16xf16>
      %y = block.load %gb [[k], []] : tensor<64x64xf16> -> !block.tile<16x64xf16>
      %p = block.matmul %v, %y : (!block.tile<64x16xf16>, !block.tile<16x64xf16>) -> !block.tile<64x64xf32>
      block.accumulate sum %p : !block.tile<64x64xf32>
    } : !block.tile<64x64xf32>
    block.store %s [[], []] : !block.tile<64x64xf32>
  }
  kernel.return %r : tensor<64x64xf32>
}

// -----

// A right one may not.
// CHECK-LABEL: kernel.graph @computed_right_factor
// CHECK: schedule <warps = 4, stages = 2> :
kernel.graph @computed_right_factor(%a: tensor<64x64xf16>, %b: tensor<64x64xf16>) -> tensor<64x64xf32> {
  // expected-remark @+1 {{expected a right factor that is loaded and not changed}}
  %r = kernel.launch(%a, %b) grid [] schedule <warps = 4, stages = 2, engine = warpgroup> : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf32> {
  ^bb0(%ga: tensor<64x64xf16>, %gb: tensor<64x64xf16>):
    %s = block.loop [k = 4] {
      %x = block.load %ga [[], [k]] : tensor<64x64xf16> -> !block.tile<64x16xf16>
      %y = block.load %gb [[k], []] : tensor<64x64xf16> -> !block.tile<16x64xf16>
      %u = block.unary silu %y : (!block.tile<16x64xf16>) -> !block.tile<16x64xf32>
      %v = block.cast %u : (!block.tile<16x64xf32>) -> !block.tile<16x64xf16>
      %p = block.matmul %x, %v : (!block.tile<64x16xf16>, !block.tile<16x64xf16>) -> !block.tile<64x64xf32>
      block.accumulate sum %p : !block.tile<64x64xf32>
    } : !block.tile<64x64xf32>
    block.store %s [[], []] : !block.tile<64x64xf32>
  }
  kernel.return %r : tensor<64x64xf32>
}

// -----

// CHECK-LABEL: kernel.graph @no_product
// CHECK: schedule <warps = 4, stages = 2> :
kernel.graph @no_product(%a: tensor<64x64xf16>) -> tensor<64x64xf32> {
  // expected-remark @+1 {{expected a loop with a product, got none}}
  %r = kernel.launch(%a) grid [] schedule <warps = 4, stages = 2, engine = warpgroup> : (tensor<64x64xf16>) -> tensor<64x64xf32> {
  ^bb0(%ga: tensor<64x64xf16>):
    %x = block.load %ga [[], []] : tensor<64x64xf16> -> !block.tile<64x64xf16>
    %u = block.unary silu %x : (!block.tile<64x64xf16>) -> !block.tile<64x64xf32>
    block.store %u [[], []] : !block.tile<64x64xf32>
  }
  kernel.return %r : tensor<64x64xf32>
}

// -----

// Blocks of a cluster are neighbours along an axis that the tiles of one factor do not depend on.
// CHECK-LABEL: kernel.graph @cluster
// CHECK: schedule <warps = 4, stages = 2, engine = warpgroup, cluster = 2>
kernel.graph @cluster(%a: tensor<192x64xf16>, %b: tensor<64x128xf16>) -> tensor<192x128xf32> {
  %r = kernel.launch(%a, %b) grid [m = 3, n = 2] schedule <warps = 4, stages = 2, engine = warpgroup, cluster = 2> : (tensor<192x64xf16>, tensor<64x128xf16>) -> tensor<192x128xf32> {
  ^bb0(%ga: tensor<192x64xf16>, %gb: tensor<64x128xf16>):
    %s = block.loop [k = 4] {
      %x = block.load %ga [[m], [k]] : tensor<192x64xf16> -> !block.tile<64x16xf16>
      %y = block.load %gb [[k], [n]] : tensor<64x128xf16> -> !block.tile<16x64xf16>
      %p = block.matmul %x, %y : (!block.tile<64x16xf16>, !block.tile<16x64xf16>) -> !block.tile<64x64xf32>
      block.accumulate sum %p : !block.tile<64x64xf32>
    } : !block.tile<64x64xf32>
    block.store %s [[m], [n]] : !block.tile<64x64xf32>
  }
  kernel.return %r : tensor<192x128xf32>
}

// -----

// CHECK-LABEL: kernel.graph @odd_grid
// CHECK: schedule <warps = 4, stages = 2, engine = warpgroup> :
kernel.graph @odd_grid(%a: tensor<192x64xf16>, %b: tensor<64x64xf16>) -> tensor<192x64xf32> {
  // expected-remark @+1 {{no cluster of blocks: expected an axis of a multiple of 2 blocks along which loops load the same tiles, of a multiple of 16 rows, got a grid of m = 3, n = 1}}
  %r = kernel.launch(%a, %b) grid [m = 3, n = 1] schedule <warps = 4, stages = 2, engine = warpgroup, cluster = 2> : (tensor<192x64xf16>, tensor<64x64xf16>) -> tensor<192x64xf32> {
  ^bb0(%ga: tensor<192x64xf16>, %gb: tensor<64x64xf16>):
    %s = block.loop [k = 4] {
      %x = block.load %ga [[m], [k]] : tensor<192x64xf16> -> !block.tile<64x16xf16>
      %y = block.load %gb [[k], [n]] : tensor<64x64xf16> -> !block.tile<16x64xf16>
      %p = block.matmul %x, %y : (!block.tile<64x16xf16>, !block.tile<16x64xf16>) -> !block.tile<64x64xf32>
      block.accumulate sum %p : !block.tile<64x64xf32>
    } : !block.tile<64x64xf32>
    block.store %s [[m], [n]] : !block.tile<64x64xf32>
  }
  kernel.return %r : tensor<192x64xf32>
}

// -----

// Blocks of a cluster take the same steps.
// CHECK-LABEL: kernel.graph @other_steps
// CHECK: schedule <warps = 4, stages = 2, engine = warpgroup> :
kernel.graph @other_steps(%a: tensor<128x64xf16>, %b: tensor<64x64xf16>) -> tensor<128x64xf32> {
  // expected-remark @+1 {{no cluster of blocks: expected loops whose steps are the same for neighbours along 'm', got others for loop 'k'}}
  %r = kernel.launch(%a, %b) grid [m = 2] schedule <warps = 4, stages = 2, engine = warpgroup, cluster = 2> : (tensor<128x64xf16>, tensor<64x64xf16>) -> tensor<128x64xf32> {
  ^bb0(%ga: tensor<128x64xf16>, %gb: tensor<64x64xf16>):
    %s = block.loop [k = 4] steps affine_map<(d0) -> (0, d0 + 3)> of [m] {
      %x = block.load %ga [[m], [k]] : tensor<128x64xf16> -> !block.tile<64x16xf16>
      %y = block.load %gb [[k], []] : tensor<64x64xf16> -> !block.tile<16x64xf16>
      %p = block.matmul %x, %y : (!block.tile<64x16xf16>, !block.tile<16x64xf16>) -> !block.tile<64x64xf32>
      block.accumulate sum %p : !block.tile<64x64xf32>
    } : !block.tile<64x64xf32>
    block.store %s [[m], []] : !block.tile<64x64xf32>
  }
  kernel.return %r : tensor<128x64xf32>
}

// -----

// Rows by index are copied to a block's own rings, and not for others.
// CHECK-LABEL: kernel.graph @looked_up
// CHECK: schedule <warps = 4, stages = 2, engine = warpgroup> :
kernel.graph @looked_up(%x: tensor<9x64xf16>, %rows: tensor<192xi64>, %b: tensor<64x128xf16>) -> tensor<192x128xf32> {
  // expected-remark @+1 {{no cluster of blocks: expected tiles that are loaded, got ones of rows by index}}
  %r = kernel.launch(%x, %rows, %b) grid [n = 2, m = 4] schedule <warps = 4, stages = 2, engine = warpgroup, cluster = 2> : (tensor<9x64xf16>, tensor<192xi64>, tensor<64x128xf16>) -> tensor<192x128xf32> {
  ^bb0(%gx: tensor<9x64xf16>, %gr: tensor<192xi64>, %gb: tensor<64x128xf16>):
    %s = block.loop [k = 4] {
      %a = block.gather %gx, %gr [[m], [k]] : tensor<9x64xf16>, tensor<192xi64> -> !block.tile<64x16xf16>
      %y = block.load %gb [[k], [n]] : tensor<64x128xf16> -> !block.tile<16x64xf16>
      %p = block.matmul %a, %y : (!block.tile<64x16xf16>, !block.tile<16x64xf16>) -> !block.tile<64x64xf32>
      block.accumulate sum %p : !block.tile<64x64xf32>
    } : !block.tile<64x64xf32>
    block.store %s [[m], [n]] : !block.tile<64x64xf32>
  }
  kernel.return %r : tensor<192x128xf32>
}

// -----

// Rows in pieces of less than 16 bytes do not reach a ring.
// CHECK-LABEL: kernel.graph @narrow_rows
// CHECK: schedule <warps = 4, stages = 2> :
kernel.graph @narrow_rows(%x: tensor<64x64xf16>, %w: tensor<9x68xf16>, %rows: tensor<64xi64>) -> tensor<64x68xf32> {
  // expected-remark @+1 {{no products of warpgroups: expected a right factor that is loaded and not changed}}
  %r = kernel.launch(%x, %w, %rows) grid [m = 1, n = 2] schedule <warps = 4, stages = 2, engine = warpgroup> : (tensor<64x64xf16>, tensor<9x68xf16>, tensor<64xi64>) -> tensor<64x68xf32> {
  ^bb0(%gx: tensor<64x64xf16>, %gw: tensor<9x68xf16>, %gr: tensor<64xi64>):
    %s = block.loop [k = 4] {
      %a = block.load %gx [[m], [k]] : tensor<64x64xf16> -> !block.tile<64x16xf16>
      %y = block.gather %gw, %gr [[k], [n]] : tensor<9x68xf16>, tensor<64xi64> -> !block.tile<16x64xf16>
      %p = block.matmul %a, %y : (!block.tile<64x16xf16>, !block.tile<16x64xf16>) -> !block.tile<64x64xf32>
      block.accumulate sum %p : !block.tile<64x64xf32>
    } : !block.tile<64x64xf32>
    block.store %s [[m], [n]] : !block.tile<64x64xf32>
  }
  kernel.return %r : tensor<64x68xf32>
}
