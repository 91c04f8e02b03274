// RUN: mirage-opt %s --split-input-file --verify-diagnostics

#split = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[0, 0]]>
!partial = !thread.fragment<16x8xf32, #split, partial>
func.func @constant() {
  // expected-error @+1 {{expected 0 in a partial fragment, where every copy counts}}
  %c = thread.constant 1.0 : !partial
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
!acc = !thread.fragment<16x8xf32, #acc>
func.func @splat(%s: f16) {
  // expected-error @+1 {{expected a scalar of the fragment's element type 'f32', got 'f16'}}
  %c = thread.splat %s : f16 -> !acc
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
!acc = !thread.fragment<16x8xf32, #acc>
func.func @iota(%i: index) {
  // expected-error @+1 {{expected dimension 0 or 1, got 2}}
  %c = thread.iota dim 2 at %i : !acc
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
!half = !thread.fragment<16x8xf16, #acc>
func.func @iota_type(%i: index) {
  // expected-error @+1 {{expected elements of type f32, i32 or i64, got 'f16'}}
  %c = thread.iota dim 0 at %i : !half
  return
}

// -----

#split = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[0, 0]]>
!partial = !thread.fragment<16x8xf32, #split, partial>
func.func @unary(%x: !partial) {
  // expected-error @+1 {{expected the operand not to be partial; sum it with thread.reduce_warps first}}
  %c = thread.unary exp %x : !partial
  return
}

// -----

#split = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[0, 0]]>
!partial = !thread.fragment<16x8xf32, #split, partial>
func.func @binary(%x: !partial) {
  // expected-error @+1 {{expected the operands not to be partial; sum it with thread.reduce_warps first}}
  %c = thread.binary mul %x, %x : !partial
  return
}

// -----

#split = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[0, 0]]>
!partial = !thread.fragment<16x8xf32, #split, partial>
func.func @exceeds_partial(%x: !partial) {
  // expected-error @+1 {{expected the operand not to be partial; sum it with thread.reduce_warps first}}
  %c = thread.exceeds %x, 1.0 : !partial
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
func.func @exceeds_f16(%x: !thread.fragment<16x8xf16, #acc>) {
  // expected-error @+1 {{expected elements of f32, got 'f16'}}
  %c = thread.exceeds %x, 1.0 : !thread.fragment<16x8xf16, #acc>
  return
}

// -----

#split = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[0, 0]]>
!partial = !thread.fragment<16x8xf32, #split, partial>
func.func @rescale(%x: !partial) {
  // expected-error @+1 {{expected a factor of type '!thread.fragment<16x8xf32, #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[0, 0]]>>', got '!thread.fragment<16x8xf32, #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[0, 0]]>, partial>'}}
  %c = thread.rescale %x by %x : !partial, !partial
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
#lhs = #thread.layout<reg = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
!acc = !thread.fragment<16x8xf32, #acc>
!lhs = !thread.fragment<16x16xf16, #lhs>
func.func @cast(%x: !acc) {
  // expected-error @+1 {{expected operand and result to differ in the element type alone}}
  %c = thread.cast %x : !acc -> !lhs
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
!acc = !thread.fragment<16x8xf32, #acc>
func.func @mask(%x: !acc, %i: index) {
  // expected-error @+1 {{expected dimension 0 or 1, got 3}}
  %c = thread.mask %x dim 3 at %i extent 4 fill 0.0 : !acc
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
#rows = #thread.layout<reg = [[8, 0]], lane = [[0, 0], [0, 0], [1, 0], [2, 0], [4, 0]]>
!acc = !thread.fragment<16x8xf32, #acc>
!rows = !thread.fragment<16x1xf32, #rows>
func.func @reduce_layout(%x: !acc) {
  // expected-error @+1 {{expected a result of layout <reg = [[0, 1]], lane = [[0, 2], [0, 4], [0, 0], [0, 0], [0, 0]]>, got <reg = [[8, 0]]}}
  %c = thread.reduce sum %x dim 0 : !acc -> !rows
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
!half = !thread.fragment<16x8xf16, #acc>
func.func @cumulate_type(%x: !half) {
  // expected-error @+1 {{expected elements of type f32 or i64, got 'f16'}}
  %c = thread.cumulate sum %x dim 1 : !half
  return
}

// -----

#wide = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], repeat = [1, 3]>
func.func @argsort_size(%x: !thread.fragment<16x24xf32, #wide>) {
  // expected-error @+1 {{expected as many elements along dimension 1 as a power of two, got 24}}
  %c = thread.argsort %x dim 1 size 20 : !thread.fragment<16x24xf32, #wide> -> !thread.fragment<16x24xi64, #wide>
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
!acc = !thread.fragment<16x8xf32, #acc>
func.func @cumulate_dim(%x: !acc) {
  // expected-error @+1 {{expected dimension 0 or 1, got 2}}
  %c = thread.cumulate sum %x dim 2 : !acc
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
#rows = #thread.layout<reg = [[8, 0]], lane = [[0, 0], [0, 0], [1, 0], [2, 0], [4, 0]]>
!half = !thread.fragment<16x8xf16, #acc>
!rows = !thread.fragment<16x1xf32, #rows>
func.func @reduce_type(%x: !half) {
  // expected-error @+1 {{expected elements of type f32 or i64, got 'f16'}}
  %c = thread.reduce sum %x dim 1 : !half -> !rows
  return
}

// -----

#split = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[0, 0]]>
!split = !thread.fragment<16x8xf32, #split>
func.func @reduce_copies(%x: !split) {
  // expected-error @+1 {{expected an operand without copies in several warps for a partial result}}
  %c = "thread.reduce"(%x) {fn = 0 : i32, dim = 1 : i64} : (!split) -> !thread.fragment<16x1xf32, #thread.layout<reg = [[8, 0]], lane = [[0, 0], [0, 0], [1, 0], [2, 0], [4, 0]], warp = [[0, 0]]>, partial>
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
!acc = !thread.fragment<16x8xf32, #acc>
func.func @reduce_max(%x: !acc) {
  // expected-error @+1 {{expected a result of layout}}
  %c = thread.reduce max %x dim 1 : !acc -> !thread.fragment<16x1xf32, #thread.layout<reg = [[8, 0]], lane = [[0, 0], [0, 0], [1, 0], [2, 0], [4, 0]], warp = [[0, 0]]>, partial>
  return
}

// -----

#split = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[0, 0]]>
!split = !thread.fragment<16x8xf32, #split>
func.func @reduce_warps(%x: !split) {
  // expected-error @+1 {{expected a partial operand}}
  %c = thread.reduce_warps %x : !split -> !split
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
#rows = #thread.layout<reg = [[8, 0]], lane = [[0, 0], [0, 0], [1, 0], [2, 0], [4, 0]]>
!acc = !thread.fragment<16x8xf32, #acc>
!rows = !thread.fragment<16x1xf32, #rows>
func.func @broadcast(%x: !rows) {
  // expected-error @+1 {{expected an operand of layout <reg = [[0, 1]], lane = [[0, 2], [0, 4], [0, 0], [0, 0], [0, 0]]>}}
  %c = thread.broadcast %x dim 0 : !rows -> !acc
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
!acc = !thread.fragment<16x8xf32, #acc>
func.func @transpose(%x: !acc) {
  // expected-error @+1 {{expected a result of layout <reg = [[1, 0], [0, 8]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]]>}}
  %c = thread.transpose %x : !acc -> !acc
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
#lhs = #thread.layout<reg = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
!half = !thread.fragment<16x8xf16, #acc>
!lhs = !thread.fragment<16x16xf16, #lhs>
func.func @slice(%x: !lhs) {
  // expected-error @+1 {{element [0, 4] is not in the registers of the operand's first thread}}
  %c = thread.slice %x [0, 4] : !lhs -> !half
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
!acc = !thread.fragment<16x8xf32, #acc>
!half = !thread.fragment<16x8xf16, #acc>
func.func @convert(%x: !acc) {
  // expected-error @+1 {{expected operand and result to differ in the layout alone}}
  %c = thread.convert_layout %x : !acc -> !half
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
!acc = !thread.fragment<16x8xf32, #acc>
func.func @load_rank(%a: memref<64xf32>, %i: index) {
  // expected-error @+1 {{expected 1 offsets, one for each dimension, got 2}}
  %c = thread.load_global %a[%i, %i] dims [0, 1] in_bounds [true, true] : memref<64xf32> -> !acc
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
!acc = !thread.fragment<16x8xf32, #acc>
func.func @load_dims(%a: memref<64x8xf32>, %i: index) {
  // expected-error @+1 {{expected two different 'dims', got 1 twice}}
  %c = thread.load_global %a[%i, %i] dims [1, 1] in_bounds [true, true] : memref<64x8xf32> -> !acc
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
!acc = !thread.fragment<16x8xf32, #acc>
func.func @load_dim_range(%a: memref<64x8xf32>, %i: index) {
  // expected-error @+1 {{expected 'dims' from -1 to 1, got 2}}
  %c = thread.load_global %a[%i, %i] dims [0, 2] in_bounds [true, true] : memref<64x8xf32> -> !acc
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
!acc = !thread.fragment<16x8xf32, #acc>
func.func @load_no_dim(%a: memref<64x8xf32>, %i: index) {
  // expected-error @+1 {{expected extent 1 where 'dims' is -1, got 8}}
  %c = thread.load_global %a[%i, %i] dims [0, -1] in_bounds [true, true] : memref<64x8xf32> -> !acc
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
!acc = !thread.fragment<16x8xf32, #acc>
func.func @load_type(%a: memref<64x8xf16>, %i: index) {
  // expected-error @+1 {{expected a tile of the tensor's element type 'f16', got 'f32'}}
  %c = thread.load_global %a[%i, %i] dims [0, 1] in_bounds [true, true] : memref<64x8xf16> -> !acc
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
!acc = !thread.fragment<16x8xf32, #acc>
func.func @load_strides(%a: memref<64x8xf32, strided<[?, 1]>>, %i: index) {
  // expected-error @+1 {{expected a tensor of static strides and offset}}
  %c = thread.load_global %a[%i, %i] dims [0, 1] in_bounds [true, true] : memref<64x8xf32, strided<[?, 1]>> -> !acc
  return
}

// -----

#split = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[0, 0]]>
!partial = !thread.fragment<16x8xf32, #split, partial>
func.func @store_partial(%x: !partial, %a: memref<64x8xf32>, %i: index) {
  // expected-error @+1 {{expected the fragment not to be partial; sum it with thread.reduce_warps first}}
  thread.store_global %x, %a[%i, %i] dims [0, 1] in_bounds [true, true] : !partial, memref<64x8xf32>
  return
}

// -----

!tile = !thread.shared<16x64xf16, swizzle = 128>
func.func @alloc() {
  // expected-error @+1 {{expected an offset of a multiple of 1024 bytes, got 512}}
  %c = thread.shared_alloc 512 : !tile
  return
}

// -----

!tile = !thread.shared<16x64xf16, swizzle = 128>
func.func @slot(%s: !tile, %i: index) {
  // expected-error @+1 {{expected a ring (a shared type of 3 dimensions)}}
  %c = thread.slot %s[%i] : !tile
  return
}

// -----

func.func @copy_ring(%a: memref<64x64xf16>, %s: !thread.shared<2x16x64xf16>, %i: index) {
  // expected-error @+1 {{expected one tile, got a ring; select with thread.slot}}
  thread.copy_async %a[%i, %i] dims [0, 1] in_bounds [true, true] to %s : memref<64x64xf16> to !thread.shared<2x16x64xf16>
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
!half = !thread.fragment<16x8xf16, #acc>
!tile = !thread.shared<16x64xf16, swizzle = 128>
func.func @load_part(%s: !tile) {
  // expected-error @+1 {{expected a part of the 16x64 tile, got 16x8 at [0, 60]}}
  %c = thread.load_shared %s at [0, 60] : !tile -> !half
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
!acc = !thread.fragment<16x8xf32, #acc>
!tile = !thread.shared<16x64xf16, swizzle = 128>
func.func @load_shared_type(%s: !tile) {
  // expected-error @+1 {{expected a fragment of the tile's element type 'f16', got 'f32'}}
  %c = thread.load_shared %s : !tile -> !acc
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
!bytes = !thread.fragment<16x8xi32, #acc>
!tile = !thread.shared<16x64xi8>
func.func @load_shared_integers(%s: !tile) {
  // expected-error @+1 {{expected a fragment of the tile's element type 'i8', got 'i32'}}
  %c = thread.load_shared %s : !tile -> !bytes
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
!acc = !thread.fragment<16x8xf32, #acc>
!tile = !thread.shared<16x64xi8>
func.func @store_shared_bytes(%f: !acc, %s: !tile) {
  // expected-error @+1 {{expected a fragment of the tile's element type 'i8', got 'f32'}}
  thread.store_shared %f, %s : !acc, !tile
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
!half = !thread.fragment<16x8xf16, #acc>
!tile = !thread.shared<16x64xf16, swizzle = 128>
func.func @load_at(%s: !tile) {
  // expected-error @+1 {{expected a row and a column in 'at', got 1 numbers}}
  %c = thread.load_shared %s at [0] : !tile -> !half
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
#lhs = #thread.layout<reg = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
#rhs = #thread.layout<reg = [[1, 0], [8, 0]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]]>
!acc = !thread.fragment<16x8xf32, #acc>
!lhs = !thread.fragment<16x16xf16, #lhs>
!rhs = !thread.fragment<16x8xf16, #rhs>
func.func @mma_tf32(%a: !lhs, %b: !rhs, %c: !acc) {
  // expected-error @+1 {{expected factors of f32 to be rounded to TF32, got 'f16'}}
  %d = thread.mma %a, %b, %c tf32 : !lhs, !rhs, !acc
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
#lhs = #thread.layout<reg = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
#rhs = #thread.layout<reg = [[1, 0], [8, 0]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]]>
!half = !thread.fragment<16x8xf16, #acc>
!lhs = !thread.fragment<16x16xf16, #lhs>
!rhs = !thread.fragment<16x8xf16, #rhs>
func.func @mma_type(%a: !lhs, %b: !rhs, %c: !half) {
  // expected-error @+1 {{expected an accumulator of f32}}
  %d = thread.mma %a, %b, %c : !lhs, !rhs, !half
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
#rhs = #thread.layout<reg = [[1, 0], [8, 0]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]]>
!acc = !thread.fragment<16x8xf32, #acc>
!rhs = !thread.fragment<16x8xf16, #rhs>
func.func @mma_shape(%a: !rhs, %c: !acc) {
  // expected-error @+1 {{shapes do not fit: 16x8 times 16x8 into 16x8}}
  %d = thread.mma %a, %a, %c : !rhs, !rhs, !acc
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
#lhs = #thread.layout<reg = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
!acc = !thread.fragment<16x8xf32, #acc>
!half = !thread.fragment<16x8xf16, #acc>
!lhs = !thread.fragment<16x16xf16, #lhs>
func.func @mma_layout(%a: !lhs, %c: !acc) {
  %b = thread.constant 0.0 : !half
  // expected-error @+1 {{the two operands with k0 of the instruction place it differently or not at all: [0, 1] and [0, 1]}}
  %d = thread.mma %a, %b, %c : !lhs, !half, !acc
  return
}

// -----

#lhs = #thread.layout<reg = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
#rhs = #thread.layout<reg = [[1, 0], [8, 0]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]]>
#split = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[0, 0]]>
!lhs = !thread.fragment<16x16xf16, #lhs>
!rhs = !thread.fragment<16x8xf16, #rhs>
!split = !thread.fragment<16x8xf32, #split>
func.func @mma_warps(%a: !lhs, %b: !rhs, %c: !split) {
  // expected-error @+1 {{expected operands of the same number of warps, got 1, 1 and 2}}
  %d = thread.mma %a, %b, %c : !lhs, !rhs, !split
  return
}

// -----

func.func @role_barrier() {
  // expected-error @+1 {{expected a barrier from 1 to 3, got 0}}
  thread.warps first 0 count 1 barrier 0 {
  }
  return
}

// -----

func.func @group_outside() {
  // expected-error @+1 {{expected thread.warps of 4, 8, 12 or 16 warps around it, got none}}
  thread.barrier group
  return
}

// -----

func.func @group_of_fewer() {
  thread.warps first 0 count 2 barrier 1 {
    // expected-error @+1 {{expected thread.warps of 4, 8, 12 or 16 warps around it, got 2}}
    thread.barrier group
  }
  return
}

// -----

func.func @group_rows() {
  %t = thread.shared_alloc 0 : !thread.shared<64x64xf16, swizzle = 128>
  thread.warps first 0 count 8 barrier 1 {
    // expected-error @+1 {{expected one panel of 128 rows, got '!thread.shared<64x64xf16, swizzle = 128>'}}
    %mine = thread.group_rows %t : !thread.shared<64x64xf16, swizzle = 128>
  }
  return
}

// -----

func.func @group_panels() {
  %t = thread.shared_alloc 0 : !thread.shared<64x128xf16, swizzle = 128>
  thread.warps first 0 count 4 barrier 1 {
    // expected-error @+1 {{expected one panel of 64 rows, got '!thread.shared<64x128xf16, swizzle = 128>'}}
    %mine = thread.group_rows %t : !thread.shared<64x128xf16, swizzle = 128>
  }
  return
}

// -----

func.func @role_nested() {
  thread.warps first 0 count 1 barrier 1 {
    // expected-error @+1 {{expected no thread.warps around it}}
    thread.warps first 0 count 1 barrier 2 {
    }
  }
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
!acc = !thread.fragment<16x8xf32, #acc>
func.func @role_capture(%x: !acc, %s: !thread.shared<16x8xf32>) {
  thread.warps first 0 count 1 barrier 1 {
    // expected-error @+1 {{uses a fragment from outside of thread.warps, where the warps have other numbers}}
    thread.store_shared %x, %s : !acc, !thread.shared<16x8xf32>
  }
  return
}

// -----

func.func @mbarrier_offset() {
  // expected-error @+1 {{expected an offset of a multiple of 8 bytes, got 4}}
  %c = thread.mbarrier_alloc 4 : !thread.mbarrier<2>
  return
}

// -----

!tile = !thread.shared<16x64xf16, swizzle = 128>
func.func @tma_coordinates(%m: !thread.tensormap<16x64xf16, swizzle = 128>, %s: !tile, %b: !thread.mbarrier<1>, %i: index) {
  // expected-error @+1 {{expected 2 coordinates, got 1}}
  thread.tma_load %m[%i] to %s signal %b[%i] : !thread.tensormap<16x64xf16, swizzle = 128> to !tile, !thread.mbarrier<1>
  return
}

// -----

!tile = !thread.shared<16x64xf16, swizzle = 128>
func.func @tma_box(%m: !thread.tensormap<8x64xf16, swizzle = 128>, %s: !tile, %b: !thread.mbarrier<1>, %i: index) {
  // expected-error @+1 {{expected a box of 16 rows that is as wide as the tile or one of its panels}}
  thread.tma_load %m[%i, %i] to %s signal %b[%i] : !thread.tensormap<8x64xf16, swizzle = 128> to !tile, !thread.mbarrier<1>
  return
}

// -----

!tile = !thread.shared<16x64xf16, swizzle = 128>
func.func @tma_swizzle(%m: !thread.tensormap<16x32xf16, swizzle = 64>, %s: !tile, %b: !thread.mbarrier<1>, %i: index) {
  // expected-error @+1 {{expected a tile of the element type and swizzle of}}
  thread.tma_load %m[%i, %i] to %s signal %b[%i] : !thread.tensormap<16x32xf16, swizzle = 64> to !tile, !thread.mbarrier<1>
  return
}

// -----

!tile = !thread.shared<16x64xf16, swizzle = 128>
func.func @bulk(%a: memref<64x64xf16>, %s: !tile, %b: !thread.mbarrier<1>, %i: index) {
  // expected-error @+1 {{expected a tile without swizzle}}
  thread.bulk_copy %a[%i, %i] dims [0, 1] to %s signal %b[%i] : memref<64x64xf16> to !tile, !thread.mbarrier<1>
  return
}

// -----

func.func @registers() {
  // expected-error @+1 {{expected a multiple of 8 from 24 to 256, got 100}}
  thread.set_max_registers increase 100
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
!acc = !thread.fragment<16x8xf32, #acc>
func.func @wgmma_swizzle(%s: !thread.shared<64x64xf16>, %c: !acc) {
  // expected-error @+1 {{expected a swizzled tile as lhs}}
  %d = thread.wgmma %s, %s, %c : !thread.shared<64x64xf16>, !thread.shared<64x64xf16>, !acc
  return
}

// -----

#lhs = #thread.layout<reg = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
func.func @wgmma_layout(%s: !thread.shared<16x64xf16, swizzle = 128>, %t: !thread.shared<64x16xf16, swizzle = 32>, %c: !thread.fragment<16x16xf32, #lhs>) {
  // expected-error @+1 {{expected an accumulator of layout wgmmaResultLayout}}
  %d = thread.wgmma %s, %t, %c : !thread.shared<16x64xf16, swizzle = 128>, !thread.shared<64x16xf16, swizzle = 32>, !thread.fragment<16x16xf32, #lhs>
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
!half = !thread.fragment<16x8xf16, #acc>
func.func @atomic(%x: !half, %a: memref<64x8xf16>, %i: index) {
  // expected-error @+1 {{expected elements of type f32, got 'f16'}}
  thread.atomic_add %x, %a[%i, %i] dims [0, 1] in_bounds [true, true] : !half, memref<64x8xf16>
  return
}

// -----

// expected-error @+1 {{expected at least 1 slot, got 0}}
func.func private @ring_slots(!thread.ring<0, <64x64xf16, swizzle = 128>>)

// -----

// expected-error @+1 {{expected tiles of 2 dimensions without pad}}
func.func private @ring_tiles(!thread.ring<2, <4x64x64xf16, swizzle = 128>>)

// -----

func.func @ring_maps(%r: !thread.ring<2, <64x64xf16, swizzle = 128>>, %i: index) {
  // expected-error @+1 {{expected 1 tensor maps, one for each tile, got 0}}
  "thread.ring_fill"(%r, %i) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>}> : (!thread.ring<2, <64x64xf16, swizzle = 128>>, index) -> ()
  return
}

// -----

func.func @ring_box(%r: !thread.ring<2, <64x64xf16, swizzle = 128>>, %m: !thread.tensormap<32x64xf16, swizzle = 128>, %i: index) {
  // expected-error @+1 {{expected a box of 64 rows}}
  thread.ring_fill %r step %i from %m at %i, %i : !thread.ring<2, <64x64xf16, swizzle = 128>>, !thread.tensormap<32x64xf16, swizzle = 128>
  return
}

// -----

func.func @ring_cluster() {
  // expected-error @+1 {{expected a cluster of 1, 2, 4 or 8 blocks, got 3}}
  %r = thread.ring_create readers 4 cluster 3 : !thread.ring<2, <64x64xf16, swizzle = 128>>
  return
}

// -----

func.func @arrive_cluster(%b: !thread.mbarrier<1>, %i: index) {
  // expected-error @+1 {{expected a cluster of 1, 2, 4 or 8 blocks, got 16}}
  thread.mbarrier_arrive %b[%i] cluster 16 : !thread.mbarrier<1>
  return
}

// -----

func.func @ring_shares_alone(%m: !thread.tensormap<32x64xf16, swizzle = 128>, %i: index) {
  %r = thread.ring_create readers 4 : !thread.ring<2, <64x64xf16, swizzle = 128>>
  // expected-error @+1 {{expected a ring of a cluster of blocks, with which tiles are shared}}
  thread.ring_fill %r step %i from %m at %i, %i shared [0] : !thread.ring<2, <64x64xf16, swizzle = 128>>, !thread.tensormap<32x64xf16, swizzle = 128>
  return
}

// -----

func.func @ring_shared_number(%m: !thread.tensormap<32x64xf16, swizzle = 128>, %i: index) {
  %r = thread.ring_create readers 4 cluster 2 : !thread.ring<2, <64x64xf16, swizzle = 128>>
  // expected-error @+1 {{expected shared tiles to be numbers from 0 to 0 in increasing order, got 1}}
  thread.ring_fill %r step %i from %m at %i, %i shared [1] : !thread.ring<2, <64x64xf16, swizzle = 128>>, !thread.tensormap<32x64xf16, swizzle = 128>
  return
}

// -----

func.func @ring_shared_box(%m: !thread.tensormap<32x64xf16, swizzle = 128>, %i: index) {
  %r = thread.ring_create readers 4 cluster 4 : !thread.ring<2, <64x64xf16, swizzle = 128>>
  // expected-error @+1 {{expected a box of 1/4 of the tile's 64 rows, a multiple of 8, got}}
  thread.ring_fill %r step %i from %m at %i, %i shared [0] : !thread.ring<2, <64x64xf16, swizzle = 128>>, !thread.tensormap<32x64xf16, swizzle = 128>
  return
}

// -----

func.func @ring_shared_rows(%m: !thread.tensormap<12x64xf16, swizzle = 128>, %i: index) {
  %r = thread.ring_create readers 4 cluster 2 : !thread.ring<2, <24x64xf16, swizzle = 128>>
  // expected-error @+1 {{expected a box of 1/2 of the tile's 24 rows, a multiple of 8, got}}
  thread.ring_fill %r step %i from %m at %i, %i shared [0] : !thread.ring<2, <24x64xf16, swizzle = 128>>, !thread.tensormap<12x64xf16, swizzle = 128>
  return
}

// -----

func.func @tma_part(%m: !thread.tensormap<24x64xf16, swizzle = 128>, %s: !thread.shared<64x64xf16, swizzle = 128>, %b: !thread.mbarrier<1>, %i: index) {
  // expected-error @+1 {{expected a box of a part of the tile's 64 rows, a multiple of 8, got}}
  thread.tma_load %m[%i, %i] to %s part %i signal %b[%i] : !thread.tensormap<24x64xf16, swizzle = 128> to !thread.shared<64x64xf16, swizzle = 128>, !thread.mbarrier<1>
  return
}

// -----

func.func @ring_coordinates(%r: !thread.ring<2, <64x64xf16, swizzle = 128>>, %m: !thread.tensormap<64x64xf16, swizzle = 128>, %i: index) {
  // expected-error @+1 {{expected 2 coordinates, those of all maps, got 1}}
  thread.ring_fill %r step %i from %m at %i : !thread.ring<2, <64x64xf16, swizzle = 128>>, !thread.tensormap<64x64xf16, swizzle = 128>
  return
}

// -----

#wgmma = #thread.layout<reg = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]>
func.func @eight_bits_by_columns(%s: !thread.shared<64x64xf8E4M3FN, swizzle = 64>, %c: !thread.fragment<64x64xf32, #wgmma>) {
  // expected-error @+1 {{expected factors of 8 or 32 bits in shared memory whose rows run along K}}
  %d = thread.wgmma %s, %s, %c : !thread.shared<64x64xf8E4M3FN, swizzle = 64>, !thread.shared<64x64xf8E4M3FN, swizzle = 64>, !thread.fragment<64x64xf32, #wgmma>
  return
}

// -----

#wgmma = #thread.layout<reg = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]>
func.func @eight_bits_and_sixteen(%s: !thread.shared<64x64xf8E4M3FN, swizzle = 64>, %t: !thread.shared<64x64xf16, swizzle = 128>, %c: !thread.fragment<64x64xf32, #wgmma>) {
  // expected-error @+1 {{expected factors of the same element type, f16, bf16 or f32, or of 8 bits, got 'f8E4M3FN' and 'f16'}}
  %d = thread.wgmma %s, %t transposed, %c : !thread.shared<64x64xf8E4M3FN, swizzle = 64>, !thread.shared<64x64xf16, swizzle = 128>, !thread.fragment<64x64xf32, #wgmma>
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
// expected-error @+1 {{expected elements of type f16, bf16, f32, i32 or i64, got 'f8E4M3FN'}}
func.func private @held(!thread.fragment<16x8xf8E4M3FN, #acc>)

// -----

#wgmma = #thread.layout<reg = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]>
func.func @promoted_halves(%s: !thread.shared<64x64xf16, swizzle = 128>, %c: !thread.fragment<64x64xf32, #wgmma>) {
  // expected-error @+1 {{expected factors of 8 bits that are added to a sum to be promoted}}
  %d = thread.wgmma %s, %s, %c {promoted} : !thread.shared<64x64xf16, swizzle = 128>, !thread.shared<64x64xf16, swizzle = 128>, !thread.fragment<64x64xf32, #wgmma>
  return
}

// -----

func.func @gather_floats(%a: memref<9x64xf16>, %at: memref<16xf32>, %s: !thread.shared<16x64xf16>, %i: index) {
  // expected-error @+1 {{expected indices of type i32 or i64, got 'f32'}}
  thread.gather_async %a, %at[%i, %i] index_rank 1 dims [0, 1] in_bounds [true, true] to %s : memref<9x64xf16>, memref<16xf32> to !thread.shared<16x64xf16>
  return
}

// -----

func.func @gather_ring(%a: memref<9x64xf16>, %at: memref<16xi32>, %s: !thread.shared<2x16x64xf16>, %i: index) {
  // expected-error @+1 {{expected one tile, got a ring; select with thread.slot}}
  thread.gather_async %a, %at[%i, %i] index_rank 1 dims [0, 1] in_bounds [true, true] to %s : memref<9x64xf16>, memref<16xi32> to !thread.shared<2x16x64xf16>
  return
}

// -----

func.func @gather_columns(%a: memref<9x64xf16>, %at: memref<16xi32>, %s: !thread.shared<64x16xf16>, %i: index) {
  // expected-error @+1 {{expected columns along the table's last dimension, got dimension 0}}
  thread.gather_async %a, %at[%i, %i] index_rank 1 dims [1, 0] in_bounds [true, true] to %s : memref<9x64xf16>, memref<16xi32> to !thread.shared<64x16xf16>
  return
}

// -----

func.func @gather_other_rows(%a: memref<9x64xf16>, %at: memref<16xi32>, %s: !thread.shared<16x64xf16>, %i: index, %rows: vector<4xi64>) {
  // expected-error @+1 {{expected rows of the indices' type, 'i32', got 'vector<4xi64>'}}
  thread.gather_async %a, %at[%i, %i] index_rank 1 dims [0, 1] in_bounds [true, true] to %s rows %rows : memref<9x64xf16>, memref<16xi32> to !thread.shared<16x64xf16>, vector<4xi64>
  return
}

// -----

func.func @read_indices_of_ring(%a: memref<9x64xf16>, %at: memref<16xi32>, %i: index) {
  // expected-error @+1 {{expected one tile, got a ring; select with thread.slot}}
  %rows = thread.read_indices %a, %at[%i, %i] index_rank 1 dims [0, 1] in_bounds [true, true] of !thread.shared<2x16x64xf16> : memref<9x64xf16>, memref<16xi32> -> vector<4xi32>
  return
}

// -----

func.func @gather_narrow(%a: memref<9x12xf16>, %at: memref<16xi32>, %s: !thread.shared<16x12xf16>, %i: index) {
  // expected-error @+1 {{expected rows of multiples of 16 bytes, got 'memref<9x12xf16>' and}}
  thread.gather_async %a, %at[%i, %i] index_rank 1 dims [0, 1] in_bounds [true, true] to %s : memref<9x12xf16>, memref<16xi32> to !thread.shared<16x12xf16>
  return
}

// -----

func.func @ring_nobody() {
  // expected-error @+1 {{expected writers or fills, got none, so that no slot would ever be full}}
  %r = thread.ring_create readers 4 fills 0 : !thread.ring<2, <64x64xf16, swizzle = 128>>
  return
}

// -----

func.func @ring_not_written(%i: index) {
  %r = thread.ring_create readers 4 : !thread.ring<2, <64x64xf16, swizzle = 128>>
  // expected-error @+1 {{expected a ring with writers, which fill its slots together}}
  %t = thread.ring_acquire %r step %i : !thread.ring<2, <64x64xf16, swizzle = 128>>
  return
}

// -----

func.func @ring_not_published(%i: index) {
  %r = thread.ring_create readers 4 : !thread.ring<2, <64x64xf16, swizzle = 128>>
  // expected-error @+1 {{expected a ring with writers, which fill its slots together}}
  thread.ring_publish %r step %i : !thread.ring<2, <64x64xf16, swizzle = 128>>
  return
}

// -----

func.func @ring_fill_of_written(%m: !thread.tensormap<64x64xf16, swizzle = 128>, %i: index) {
  %r = thread.ring_create readers 4 writers 4 : !thread.ring<2, <64x64xf16, swizzle = 128>>
  // expected-error @+1 {{expected the numbers of the tiles that it fills (into), for the ring has writers}}
  thread.ring_fill %r step %i from %m at %i, %i : !thread.ring<2, <64x64xf16, swizzle = 128>>, !thread.tensormap<64x64xf16, swizzle = 128>
  return
}

// -----

func.func @ring_fill_into_others(%m: !thread.tensormap<64x64xf16, swizzle = 128>, %i: index) {
  %r = thread.ring_create readers 4 writers 4 : !thread.ring<2, <64x64xf16, swizzle = 128>>
  // expected-error @+1 {{expected filled tiles to be numbers from 0 to 0 in increasing order, got 1}}
  thread.ring_fill %r step %i into [1] from %m at %i, %i : !thread.ring<2, <64x64xf16, swizzle = 128>>, !thread.tensormap<64x64xf16, swizzle = 128>
  return
}

// -----

func.func @ring_fill_too_few(%i: index) {
  %r = thread.ring_create readers 4 writers 4 : !thread.ring<2, <64x64xf16, swizzle = 128>>
  // expected-error @+1 {{expected 1 tensor maps, one for each tile, got 0}}
  thread.ring_fill %r step %i into [0] : !thread.ring<2, <64x64xf16, swizzle = 128>>
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
func.func @ordered_without_vectors(%a: memref<16x7xf32>, %i: index) {
  // expected-error @+1 {{expected rows of 7 columns in vectors of 4 'f32' in each thread, got}}
  %c = thread.load_global %a[%i, %i] dims [0, 1] in_bounds [true, true] extents [16, 7] ordered : memref<16x7xf32> -> !thread.fragment<16x8xf32, #acc>
  return
}

// -----

#wide = #thread.layout<reg = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [0, 16], [1, 0], [2, 0], [4, 0]]>
func.func @ordered_part(%a: memref<8x35xf16>, %x: !thread.fragment<8x32xf16, #wide>, %i: index) {
  // expected-error @+1 {{expected rows of 35 columns in vectors of 8 'f16' in each thread, got}}
  thread.store_global %x, %a[%i, %i] dims [0, 1] in_bounds [true, true] ordered : !thread.fragment<8x32xf16, #wide>, memref<8x35xf16>
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
func.func @integers_count(%x: !thread.fragment<16x8xf32, #acc>) {
  // expected-error @+1 {{expected a load, a table or a position for each of the 1 operands, got 2}}
  %y = thread.integers %x ["load 0 1", "load 0 1", "add 0 1 : i64"] : (!thread.fragment<16x8xf32, #acc>) -> !thread.fragment<16x8xi64, #acc>
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
func.func @integers_operand(%x: !thread.fragment<16x8xf16, #acc>) {
  // expected-error @+1 {{expected operands of i64 or f32 in the result's layout, got}}
  %y = thread.integers %x ["load 0 1", "cast 0 : i64"] : (!thread.fragment<16x8xf16, #acc>) -> !thread.fragment<16x8xi64, #acc>
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
func.func @integers_result(%x: !thread.fragment<16x8xi64, #acc>) {
  // expected-error @+1 {{expected a result of f32, got}}
  %y = thread.integers %x ["load 0 1", "cast 0 : f16"] : (!thread.fragment<16x8xi64, #acc>) -> !thread.fragment<16x8xf16, #acc>
  return
}

// -----

#acc = #thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
func.func @integers_step(%x: !thread.fragment<16x8xi64, #acc>) {
  // expected-error @+1 {{step 1: expected a function of integers, got 'pow 0 0 : i64'}}
  %y = thread.integers %x ["load 0 1", "pow 0 0 : i64"] : (!thread.fragment<16x8xi64, #acc>) -> !thread.fragment<16x8xi64, #acc>
  return
}

// -----

#row = #thread.layout<reg = [], lane = [[0, 0], [0, 0], [0, 0], [0, 0], [0, 0]], warp = []>

func.func @gathered_blocks(%f: !thread.fragment<1x1xf32, #row>) {
  // expected-error @+1 {{expected 2, 4, 8 or 16 blocks, got 3}}
  %a:3 = thread.cluster_gather %f blocks 3 : !thread.fragment<1x1xf32, #row> -> !thread.fragment<1x1xf32, #row>, !thread.fragment<1x1xf32, #row>, !thread.fragment<1x1xf32, #row>
  return
}

// -----

#row = #thread.layout<reg = [], lane = [[0, 0], [0, 0], [0, 0], [0, 0], [0, 0]], warp = []>

func.func @gathered_results(%f: !thread.fragment<1x1xf32, #row>) {
  // expected-error @+1 {{expected one result for each of the 4 blocks and 1 operands, got 2}}
  %a:2 = thread.cluster_gather %f blocks 4 : !thread.fragment<1x1xf32, #row> -> !thread.fragment<1x1xf32, #row>, !thread.fragment<1x1xf32, #row>
  return
}

// -----

#row = #thread.layout<reg = [], lane = [[0, 0], [0, 0], [0, 0], [0, 0], [0, 0]], warp = []>

func.func @gathered_types(%f: !thread.fragment<1x1xf32, #row>) {
  // expected-error @+1 {{expected results of the operand's type}}
  %a:2 = thread.cluster_gather %f blocks 2 : !thread.fragment<1x1xf32, #row> -> !thread.fragment<1x1xf32, #row>, !thread.fragment<1x1xi64, #row>
  return
}

// -----

#row = #thread.layout<reg = [], lane = [[0, 0], [0, 0], [0, 0], [0, 0], [0, 0]], warp = []>

func.func @gathered_in_loop(%f: !thread.fragment<1x1xf32, #row>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    // expected-error @+1 {{expected to be outside of loops, in which others would write while a block still reads}}
    %a:2 = thread.cluster_gather %f blocks 2 : !thread.fragment<1x1xf32, #row> -> !thread.fragment<1x1xf32, #row>, !thread.fragment<1x1xf32, #row>
  }
  return
}

// -----

#row = #thread.layout<reg = [], lane = [[0, 0], [0, 0], [0, 0], [0, 0], [0, 0]], warp = []>

func.func @gathered_elements(%f: !thread.fragment<1x1xf32, #row>, %i: !thread.fragment<1x1xi64, #row>) {
  // expected-error @+1 {{expected operands of one element type, got 'f32' and}}
  %a:4 = thread.cluster_gather %f, %i blocks 2 : !thread.fragment<1x1xf32, #row>, !thread.fragment<1x1xi64, #row> -> !thread.fragment<1x1xf32, #row>, !thread.fragment<1x1xf32, #row>, !thread.fragment<1x1xi64, #row>, !thread.fragment<1x1xi64, #row>
  return
}
