//===- ThreadMemoryOps.td - tiles of memory, barriers, roles ---*- tablegen -*-===//

#ifndef MIRAGE_DIALECT_THREAD_IR_THREADMEMORYOPS_TD
#define MIRAGE_DIALECT_THREAD_IR_THREADMEMORYOPS_TD

include "mirage/Dialect/Thread/IR/ThreadOpBase.td"

//===----------------------------------------------------------------------===//
// Global memory
//===----------------------------------------------------------------------===//

def Thread_LoadGlobalOp : Thread_Op<"load_global", [AttrSizedOperandSegments, MemoryEffects<[MemRead]>]> {
  let summary = "loads a tile of a device tensor into registers";
  let description = [{
    Element (r, c) of the tile is the tensor's element at `offsets`, with r added
    along dimension `dims[0]` and c along `dims[1]`. A dimension of -1 means none:
    the tile has extent 1 there. Elements outside the tensor along the dimensions
    `dims` read as 0. If `in_bounds` (for rows and columns) is true, the offsets
    guarantee that there are none, and no check is made. With `extents` (rows,
    columns), elements of the tile beyond the first `extents` count as outside the
    tensor, even if `in_bounds` is true: a 1-row tile held in a 16-row fragment has
    `extents [1, 16]`. Offsets are never negative. Accesses are as wide as the layout
    and the provable alignment allow, up to 16 bytes. Integers in memory may become
    f32 or i64 in registers. With `when`, the load happens only if the condition holds, which
    is the same for the whole block; otherwise the result is 0.

    With `ordered`, the tile has whole rows of the tensor (of `c` columns), in another order: its
    columns begin with those from the row's first multiple of 16 bytes on, so that threads access
    them in vectors of 16 bytes for every start of a row; then come those before that multiple, then
    the rest, all in the tile's first `c` columns. So the order is the same for rows with the same
    offset from such a multiple (`mirage-order-columns`).

    ```mlir
    %x = thread.load_global %a[%h, %i, %j] dims [1, 2] in_bounds [true, false]
      : memref<8x64x100xf16> -> !thread.fragment<16x16xf16, #layout>
    ```
  }];
  let arguments = (ins Thread_GlobalMemRef:$source, Variadic<Index>:$offsets,
                       DenseI64ArrayAttr:$dims, DenseBoolArrayAttr:$in_bounds,
                       OptionalAttr<DenseI64ArrayAttr>:$extents, Optional<I1>:$when,
                       UnitAttr:$ordered);
  let results = (outs Thread_FragmentType:$result);
  let assemblyFormat = [{
    $source `[` $offsets `]` `dims` $dims `in_bounds` $in_bounds (`extents` $extents^)? (`when` $when^)? (`ordered` $ordered^)? attr-dict
    `:` type($source) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Thread_GatherGlobalOp : Thread_Op<"gather_global", [MemoryEffects<[MemRead]>]> {
  let summary = "loads rows of a table by index into registers";
  let description = [{
    Like `thread.load_global` from the tensor whose first `index_rank` dimensions are
    those of `indices` and whose other dimensions are those of a row of `table`;
    `offsets`, `dims`, `in_bounds` and `extents` refer to that tensor. Rows whose index
    is outside of the table are NaN, and nothing is read for them. With `from_end`, negative
    indices count from the end of the table.

    ```mlir
    %x = thread.gather_global %table, %ids[%b, %i, %j] index_rank 2 dims [1, 2] in_bounds [true, true]
      : memref<1000x64xf16>, memref<2x16xi64> -> !thread.fragment<16x16xf16, #layout>
    ```
  }];
  let arguments = (ins Thread_GlobalMemRef:$table, Thread_GlobalMemRef:$indices,
                       Variadic<Index>:$offsets, I64Attr:$index_rank, DenseI64ArrayAttr:$dims,
                       DenseBoolArrayAttr:$in_bounds, OptionalAttr<DenseI64ArrayAttr>:$extents,
                       UnitAttr:$from_end);
  let results = (outs Thread_FragmentType:$result);
  let assemblyFormat = [{
    $table `,` $indices `[` $offsets `]` `index_rank` $index_rank `dims` $dims
    `in_bounds` $in_bounds (`extents` $extents^)? (`from_end` $from_end^)? attr-dict
    `:` type($table) `,` type($indices) `->` type($result)
  }];
  let extraClassDeclaration = [{
    /// The tensor that the tile is of, as if it were in memory.
    ::mlir::MemRefType getGatheredType();
  }];
  let hasVerifier = 1;
}

def Thread_StoreGlobalOp : Thread_Op<"store_global", [AttrSizedOperandSegments, MemoryEffects<[MemWrite]>]> {
  let summary = "stores a tile in registers to a device tensor";
  let description = [{
    The arguments are as for `thread.load_global`; elements outside the tensor are
    dropped. If an element has several owners, one of them stores it.

    ```mlir
    thread.store_global %x, %a[%i, %j] dims [0, 1] in_bounds [true, true]
      : !thread.fragment<16x16xf16, #layout>, memref<64x128xf16>
    ```
  }];
  let arguments = (ins Thread_FragmentType:$value, Thread_GlobalMemRef:$dest,
                       Variadic<Index>:$offsets, DenseI64ArrayAttr:$dims,
                       DenseBoolArrayAttr:$in_bounds,
                       OptionalAttr<DenseI64ArrayAttr>:$extents, Optional<I1>:$when,
                       UnitAttr:$ordered);
  let assemblyFormat = [{
    $value `,` $dest `[` $offsets `]` `dims` $dims `in_bounds` $in_bounds (`extents` $extents^)? (`when` $when^)? (`ordered` $ordered^)?
    attr-dict `:` type($value) `,` type($dest)
  }];
  let hasVerifier = 1;
}

def Thread_CopyAsyncOp : Thread_Op<"copy_async", [Thread_Needs<"AsyncCopy">, AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "copies a tile of a device tensor to shared memory, asynchronously";
  let description = [{
    `dims` and `in_bounds` are as for `thread.load_global`; elements outside the
    tensor are filled with zeros. The destination is one slot. The op uses `cp.async`
    of 16, 8 or 4 bytes if the provable alignment allows it, and ordinary loads and
    stores otherwise. In both cases a thread sees the data that it has copied itself
    after `thread.copy_wait`, and the other threads see it after a barrier that follows.
    With `when`, the copy happens only if the condition holds, which is the same for
    the whole block.

    ```mlir
    thread.copy_async %a[%i, %j] dims [0, 1] in_bounds [true, true] to %tile
      : memref<64x128xf16> to !thread.shared<64x64xf16, swizzle = 128>
    ```
  }];
  let arguments = (ins Thread_GlobalMemRef:$source, Variadic<Index>:$offsets,
                       DenseI64ArrayAttr:$dims, DenseBoolArrayAttr:$in_bounds,
                       OptionalAttr<DenseI64ArrayAttr>:$extents,
                       Thread_SharedType:$dest, Optional<I1>:$when);
  let assemblyFormat = [{
    $source `[` $offsets `]` `dims` $dims `in_bounds` $in_bounds (`extents` $extents^)? `to` $dest (`when` $when^)?
    attr-dict `:` type($source) `to` type($dest)
  }];
  let hasVerifier = 1;
}

def Thread_ReadIndicesOp : Thread_Op<"read_indices", [AttrSizedOperandSegments, MemoryEffects<[MemRead]>]> {
  let summary = "reads the indices of the rows that a thread copies";
  let description = [{
    The elements of `indices` that `thread.gather_async` with the same arguments needs: one for each
    piece that this thread copies. They may be read long before they are needed. The table is not
    read. Where `when` does not hold, the result is not specified.

    ```mlir
    %rows = thread.read_indices %table, %ids[%b, %i, %j] index_rank 2 dims [1, 2] in_bounds [true, true] of !thread.shared<16x64xf16, swizzle = 128>
      : memref<1000x64xf16>, memref<2x16xi64> -> vector<4xi64>
    ```
  }];
  let arguments = (ins Thread_GlobalMemRef:$table, Thread_GlobalMemRef:$indices,
                       Variadic<Index>:$offsets, I64Attr:$index_rank, DenseI64ArrayAttr:$dims,
                       DenseBoolArrayAttr:$in_bounds, OptionalAttr<DenseI64ArrayAttr>:$extents,
                       TypeAttrOf<Thread_SharedType>:$tile, Optional<I1>:$when);
  let results = (outs VectorOfRankAndType<[1], [I32, I64]>:$rows);
  let assemblyFormat = [{
    $table `,` $indices `[` $offsets `]` `index_rank` $index_rank `dims` $dims
    `in_bounds` $in_bounds (`extents` $extents^)? `of` $tile (`when` $when^)? attr-dict
    `:` type($table) `,` type($indices) `->` type($rows)
  }];
  let extraClassDeclaration = [{
    /// The tensor that the tile is of, as if it were in memory.
    ::mlir::MemRefType getGatheredType();
    /// The tile.
    ::mirage::thread::SharedType getShared() {
      return ::llvm::cast<::mirage::thread::SharedType>(getTile());
    }
    /// The most pieces of 16 bytes of a tile that one of `threads` threads copies.
    static int64_t countPieces(::mirage::thread::SharedType tile, int64_t threads);
  }];
  let hasVerifier = 1;
}

def Thread_GatherAsyncOp : Thread_Op<"gather_async", [Thread_Needs<"AsyncCopy">, AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "copies rows of a table by index to shared memory, asynchronously";
  let description = [{
    `table`, `indices` and `index_rank` are as for `thread.gather_global`, all other
    arguments as for `thread.copy_async`. Columns of the tile run along the last dimension of the
    table, whose rows are multiples of 16 bytes long and aligned to 16 bytes. The indices are read
    immediately, unless `thread.read_indices` has read them before (`rows`). Rows whose index is
    outside of the table are NaN, and nothing is read for them. With `from_end`, negative indices
    count from the end of the table.

    ```mlir
    thread.gather_async %table, %ids[%b, %i, %j] index_rank 2 dims [1, 2] in_bounds [true, true] to %tile
      : memref<1000x64xf16>, memref<2x16xi64> to !thread.shared<16x64xf16, swizzle = 128>
    ```
  }];
  let arguments = (ins Thread_GlobalMemRef:$table, Thread_GlobalMemRef:$indices,
                       Variadic<Index>:$offsets, I64Attr:$index_rank, DenseI64ArrayAttr:$dims,
                       DenseBoolArrayAttr:$in_bounds, OptionalAttr<DenseI64ArrayAttr>:$extents,
                       Thread_SharedType:$dest, Optional<I1>:$when,
                       Optional<VectorOfRankAndType<[1], [I32, I64]>>:$rows, UnitAttr:$from_end);
  let assemblyFormat = [{
    $table `,` $indices `[` $offsets `]` `index_rank` $index_rank `dims` $dims
    `in_bounds` $in_bounds (`extents` $extents^)? `to` $dest (`when` $when^)? (`rows` $rows^)? (`from_end` $from_end^)? attr-dict
    `:` type($table) `,` type($indices) `to` type($dest) (`,` type($rows)^)?
  }];
  let extraClassDeclaration = [{
    /// The tensor that the tile is of, as if it were in memory.
    ::mlir::MemRefType getGatheredType();
  }];
  let hasVerifier = 1;
}

def Thread_CopyCommitOp : Thread_Op<"copy_commit", [Thread_Needs<"AsyncCopy">, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "closes a group of asynchronous copies";
  let description = [{
    ```mlir
    thread.copy_commit
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def Thread_CopyWaitOp : Thread_Op<"copy_wait", [Thread_Needs<"AsyncCopy">, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until at most `pending` groups of asynchronous copies are in flight";
  let description = [{
    It waits for this thread's copies only; a barrier makes those of others visible.

    ```mlir
    thread.copy_wait 1
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$pending);
  let assemblyFormat = "$pending attr-dict";
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

def Thread_SharedAllocOp : Thread_Op<"shared_alloc", [Pure]> {
  let summary = "a tile at a fixed byte offset of the dynamic shared memory";
  let description = [{
    The kernel's shared memory starts at a multiple of 1024 bytes; its size is
    the largest end of all tiles, barriers and scratch areas. Two allocations may
    overlap: it is up to the planner to ensure that they are not used at the same time.

    ```mlir
    %ring = thread.shared_alloc 0 : !thread.shared<3x128x64xf16, swizzle = 128>
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$offset);
  let results = (outs Thread_SharedType:$result);
  let assemblyFormat = "$offset attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Thread_SlotOp : Thread_Op<"slot", [Pure, InferTypeOpAdaptor]> {
  let summary = "one tile of a ring";
  let description = [{
    ```mlir
    %tile = thread.slot %ring[%stage] : !thread.shared<3x128x64xf16, swizzle = 128>
    ```
  }];
  let arguments = (ins Thread_SharedType:$ring, Index:$index);
  let results = (outs Thread_SharedType:$result);
  let assemblyFormat = "$ring `[` $index `]` attr-dict `:` type($ring)";
  let hasVerifier = 1;
}

def Thread_GroupRowsOp : Thread_Op<"group_rows", [Pure, InferTypeOpAdaptor]> {
  let summary = "the 64 rows of a tile that a group of four warps owns";
  let description = [{
    The tile has one panel, and its rows are divided among the groups of the enclosing
    `thread.warps`: the first group owns the first 64 rows, and so on.

    ```mlir
    thread.warps first 0 count 8 barrier 1 {
      %mine = thread.group_rows %tile : !thread.shared<128x64xf16, swizzle = 128>
    }
    ```
  }];
  let arguments = (ins Thread_SharedType:$tile);
  let results = (outs Thread_SharedType:$result);
  let assemblyFormat = "$tile attr-dict `:` type($tile)";
  let hasVerifier = 1;
}

def Thread_LoadSharedOp : Thread_Op<"load_shared", [MemoryEffects<[MemRead]>]> {
  let summary = "loads a part of a shared tile into registers";
  let description = [{
    The part starts at `at` (row and column of the shared tile, 0 and 0 by default) and
    has the fragment's shape. With `transposed`, element (r, c) of the fragment is
    element (at[0] + c, at[1] + r) of the shared tile. The op uses `ldmatrix` (with
    `.trans`) if the layout allows it, and otherwise loads that are as wide as possible.
    Elements of 8 bits, integers or floats, become the numbers of an f16 or f32 fragment.

    ```mlir
    %f = thread.load_shared %tile at [0, 16] : !thread.shared<16x64xf16> -> !thread.fragment<16x16xf16, #layout>
    ```
  }];
  let arguments = (ins Thread_SharedType:$source, OptionalAttr<DenseI64ArrayAttr>:$at,
                       UnitAttr:$transposed);
  let results = (outs Thread_FragmentType:$result);
  let assemblyFormat = [{
    $source (`at` $at^)? (`transposed` $transposed^)? attr-dict `:` type($source) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Thread_StoreSharedOp : Thread_Op<"store_shared", [MemoryEffects<[MemWrite]>]> {
  let summary = "stores a fragment to a part of a shared tile";
  let description = [{
    `at` and `transposed` are as for `thread.load_shared`. If an element has several
    owners, one of them stores it.

    ```mlir
    thread.store_shared %f, %tile at [0, 16] : !thread.fragment<16x16xf16, #layout>, !thread.shared<16x64xf16>
    ```
  }];
  let arguments = (ins Thread_FragmentType:$value, Thread_SharedType:$dest,
                       OptionalAttr<DenseI64ArrayAttr>:$at, UnitAttr:$transposed);
  let assemblyFormat = [{
    $value `,` $dest (`at` $at^)? (`transposed` $transposed^)? attr-dict
    `:` type($value) `,` type($dest)
  }];
  let hasVerifier = 1;
}

def Thread_BarrierOp : Thread_Op<"barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "all warps of the block (or of the enclosing `thread.warps`) wait for each other";
  let description = [{
    With `group`, which is allowed in roles only, the warps of each group of four wait
    for each other.

    ```mlir
    thread.barrier
    ```
  }];
  let arguments = (ins UnitAttr:$group);
  let assemblyFormat = "(`group` $group^)? attr-dict";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Warp roles
//===----------------------------------------------------------------------===//

def Thread_WarpsOp : Thread_Op<"warps", [SingleBlockImplicitTerminator<"EndOp">, RecursiveMemoryEffects, NoRegionArguments]> {
  let summary = "code for some of the warps";
  let description = [{
    Warps `first` to `first + count - 1` execute the body. Inside, they are warps
    0 to `count - 1`, and layouts are made for `count` warps. Fragments are not
    captured. `barrier` (1 to 3) is the number of the hardware barrier that the
    `thread.barrier`s in the body use; roles that run at the same time need different
    ones. Barriers `4 * barrier` to `4 * barrier + 3` are those of its groups of four
    warps.

    ```mlir
    thread.warps first 0 count 1 barrier 1 {
      thread.barrier
    }
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$first,
                       ConfinedAttr<I64Attr, [IntPositive]>:$count, I64Attr:$barrier);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`first` $first `count` $count `barrier` $barrier attr-dict-with-keyword $body";
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Thread_EndOp : Thread_Op<"end", [Pure, Terminator, HasParent<"WarpsOp">]> {
  let summary = "end of a role";
  let assemblyFormat = "attr-dict";
}

#endif // MIRAGE_DIALECT_THREAD_IR_THREADMEMORYOPS_TD
