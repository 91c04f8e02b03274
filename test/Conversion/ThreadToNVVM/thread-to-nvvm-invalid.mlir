// RUN: mirage-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(gpu.module(mirage-convert-thread-to-nvvm))'

#rows = #thread.layout<reg = [], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0]]>
#one = #thread.layout<reg = [], lane = [[0, 0], [0, 0], [0, 0], [0, 0], [0, 0]], warp = [[0, 0]]>
gpu.module @scratch {
  gpu.func @k() kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %x = thread.constant 1.0 : !thread.fragment<64x1xf32, #rows>
    // expected-error @+2 {{expected 'scratch', the byte offset of 8 bytes of shared memory; run mirage-plan-shared-memory first}}
    // expected-error @+1 {{failed to legalize operation 'thread.reduce'}}
    %r = thread.reduce sum %x dim 0 : !thread.fragment<64x1xf32, #rows> -> !thread.fragment<1x1xf32, #one>
    gpu.return
  }
}

// -----

#rows = #thread.layout<reg = [], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]]>
gpu.module @warps {
  gpu.func @k() kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    // expected-error @+1 {{expected layouts for 2 warps, got one for 1}}
    %x = thread.constant 1.0 : !thread.fragment<32x1xf32, #rows>
    gpu.return
  }
}

// -----

#rows = #thread.layout<reg = [], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]]>
gpu.module @block_size {
  gpu.func @k() kernel {
    // expected-error @+1 {{expected a gpu.func around it with known_block_size, a multiple of 32}}
    %x = thread.constant 1.0 : !thread.fragment<32x1xf32, #rows>
    gpu.return
  }
}

// -----

gpu.module @bulk {
  gpu.func @k(%a: memref<8x64xf16>, %i: index) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %s = thread.shared_alloc 0 : !thread.shared<1x32xf16>
    %b = thread.mbarrier_alloc 1024 : !thread.mbarrier<1>
    // expected-error @+2 {{expected rows that provably start at a multiple of 16 bytes; the offsets or strides do not show it}}
    // expected-error @+1 {{failed to legalize operation 'thread.bulk_copy'}}
    thread.bulk_copy %a[%c0, %i] dims [0, 1] to %s signal %b[%c0] : memref<8x64xf16> to !thread.shared<1x32xf16>, !thread.mbarrier<1>
    gpu.return
  }
}

// -----

gpu.module @no_size {
  // expected-error @+1 {{expected one size where there are dynamic tensors, none where there are not, got 0 of 1 tensors}}
  gpu.func @k(%a: memref<32x4xf32> {thread.unit = 4}) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    gpu.return
  }
}

// -----

gpu.module @wide_size {
  // expected-error @+1 {{expected a size of type i32, got 'i64'}}
  gpu.func @k(%a: memref<32x4xf32> {thread.unit = 4}, %n: i64 {thread.size}) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    gpu.return
  }
}

// -----

gpu.module @unit {
  // expected-error @+1 {{expected 'thread.unit' to be a positive number of elements of a tensor, got 0 : i64 of 'memref<32x4xf32>'}}
  gpu.func @k(%a: memref<32x4xf32> {thread.unit = 0}, %n: i32 {thread.size}) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    gpu.return
  }
}

// -----

gpu.module @element {
  gpu.func @k(%a: memref<4xi32> {thread.unit = 1}, %n: i32 {thread.size}) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    // expected-error @+1 {{expected tensors of a known size, got one of a dynamic size, which only copies by elements keep within its rows}}
    %x = memref.load %a[%c0] : memref<4xi32>
    gpu.return
  }
}

// -----

gpu.module @indices_ahead {
  gpu.func @k(%a: memref<9x64xf16>, %at: memref<16xi32>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    // expected-error @+2 {{failed to legalize operation 'thread.read_indices'}}
    // expected-error @+1 {{expected the indices of 4 pieces of '!thread.shared<16x64xf16>', got 'vector<2xi32>'}}
    %rows = thread.read_indices %a, %at[%c0, %c0] index_rank 1 dims [0, 1] in_bounds [true, true] of !thread.shared<16x64xf16> : memref<9x64xf16>, memref<16xi32> -> vector<2xi32>
    gpu.return
  }
}

// -----

gpu.module @interleaved {
  // expected-error @+1 {{expected 'thread.interleaved' to name a parameter with the same elements and a distance, got array<i64: 1, 1> of 'memref<8x64xf16>'}}
  gpu.func @k(%a: memref<8x64xf16> {thread.interleaved = array<i64: 1, 1>}, %b: memref<8x64xf32>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    gpu.return
  }
}
