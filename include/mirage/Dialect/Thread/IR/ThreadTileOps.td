//===- ThreadTileOps.td - ops on fragments and shared tiles ------*- tablegen -*-===//

#ifndef MIRAGE_DIALECT_THREAD_IR_THREADTILEOPS_TD
#define MIRAGE_DIALECT_THREAD_IR_THREADTILEOPS_TD

include "mirage/Dialect/Common/ScalarOps.td"
include "mirage/Dialect/Thread/IR/ThreadAttrs.td"
include "mirage/Dialect/Thread/IR/ThreadDialect.td"
include "mirage/Dialect/Thread/IR/ThreadInterfaces.td"
include "mirage/Dialect/Thread/IR/ThreadTypes.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Thread_Op<string mnemonic, list<Trait> traits = []> : Op<Thread_Dialect, mnemonic, traits>;

/// An op on registers alone.
class Thread_FragmentOp<string mnemonic, list<Trait> traits = []>
    : Thread_Op<mnemonic, !listconcat([Pure], traits)> {
  let results = (outs Thread_FragmentType:$result);
}

def Thread_GlobalMemRef : StaticShapeMemRefOf<[F16, BF16, F32, I32]>;

//===----------------------------------------------------------------------===//
// Values in registers
//===----------------------------------------------------------------------===//

def Thread_ConstantOp : Thread_FragmentOp<"constant"> {
  let summary = "a fragment whose elements are all equal, known at compile time";
  let description = [{
    ```mlir
    %zero = thread.constant 0.0 : !thread.fragment<16x8xf32, #layout>
    ```
  }];
  let arguments = (ins F64Attr:$value);
  let assemblyFormat = "$value attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Thread_SplatOp : Thread_FragmentOp<"splat"> {
  let summary = "a fragment whose elements are all equal to a scalar";
  let description = [{
    ```mlir
    %s = thread.splat %scale : f32 -> !thread.fragment<16x8xf32, #layout>
    ```
  }];
  let arguments = (ins AnyTypeOf<[F16, BF16, F32, I32]>:$value);
  let assemblyFormat = "$value attr-dict `:` type($value) `->` type($result)";
  let hasVerifier = 1;
}

def Thread_IotaOp : Thread_FragmentOp<"iota"> {
  let summary = "each element is its own index along one dimension, plus an offset";
  let description = [{
    An f32 result holds indices up to 2^24 exactly.

    ```mlir
    %i = thread.iota dim 1 at %col : !thread.fragment<16x8xf32, #layout>
    ```
  }];
  let arguments = (ins I64Attr:$dim, Index:$offset);
  let assemblyFormat = "`dim` $dim `at` $offset attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Thread_UnaryOp : Thread_FragmentOp<"unary", [SameOperandsAndResultType]> {
  let summary = "a scalar function of each element";
  let description = [{
    f16 and bf16 operands are computed in f32 and rounded once, except for the
    functions that are exact in their own type (neg, abs, relu).

    ```mlir
    %e = thread.unary exp %x : !thread.fragment<16x8xf32, #layout>
    ```
  }];
  let arguments = (ins Mirage_UnaryFn:$fn, Thread_FragmentType:$operand);
  let assemblyFormat = "$fn $operand attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Thread_BinaryOp : Thread_FragmentOp<"binary", [SameOperandsAndResultType]> {
  let summary = "a function of two scalars, element by element";
  let description = [{
    Operands of smaller shape are brought to the common one by
    `thread.broadcast`. f16 and bf16 operands are computed in f32 and rounded
    once, except for max and min. On partial operands only add and sub are
    allowed.

    ```mlir
    %s = thread.binary add %x, %y : !thread.fragment<16x8xf32, #layout>
    ```
  }];
  let arguments = (ins Mirage_BinaryFn:$fn, Thread_FragmentType:$lhs, Thread_FragmentType:$rhs);
  let assemblyFormat = "$fn $lhs `,` $rhs attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Thread_ScaleOp : Thread_FragmentOp<"scale", [AllTypesMatch<["operand", "result"]>]> {
  let summary = "each element times a constant; allowed on partial fragments";
  let description = [{
    ```mlir
    %s = thread.scale %x by 0.125 : !thread.fragment<16x8xf32, #layout>
    ```
  }];
  let arguments = (ins Thread_FragmentType:$operand, F64Attr:$factor);
  let assemblyFormat = "$operand `by` $factor attr-dict `:` type($result)";
}

def Thread_CastOp : Thread_FragmentOp<"cast"> {
  let summary = "conversion between f16, bf16 and f32, to nearest even";
  let description = [{
    The layout stays. Summands of a partial fragment are rounded one by one.

    ```mlir
    %h = thread.cast %x : !thread.fragment<16x8xf32, #layout> -> !thread.fragment<16x8xf16, #layout>
    ```
  }];
  let arguments = (ins Thread_FragmentType:$operand);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Thread_MaskOp : Thread_FragmentOp<"mask", [AllTypesMatch<["operand", "result"]>]> {
  let summary = "overwrites what lies outside a tensor";
  let description = [{
    Element `i` along `dim` is kept where `offset + i < extent`, and replaced by
    `fill` elsewhere.

    ```mlir
    %m = thread.mask %x dim 1 at %col extent 100 fill 0xFFF0000000000000 : !thread.fragment<16x8xf32, #layout>
    ```
  }];
  let arguments = (ins Thread_FragmentType:$operand, I64Attr:$dim, Index:$offset, I64Attr:$extent,
                       F64Attr:$fill);
  let assemblyFormat = [{
    $operand `dim` $dim `at` $offset `extent` $extent `fill` $fill attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Changes of shape and layout
//===----------------------------------------------------------------------===//

def Thread_ReduceOp : Thread_Op<"reduce", [DeclareOpInterfaceMethods<Thread_ScratchOpInterface, ["getScratchBytes"]>,
                                     DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "sum or maximum along one dimension, which keeps size 1";
  let description = [{
    The result's layout is the operand's with the coordinate along `dim` dropped
    (`LinearLayout::reduce`): every owner gets the result. Registers come first,
    then shuffles between lanes, then, if `dim` is spread over several warps, an
    exchange through scratch memory. A partial result (sum only) leaves that
    last step out.

    ```mlir
    %s = thread.reduce sum %x dim 1 {scratch = 1024 : i64}
      : !thread.fragment<16x8xf32, #layout> -> !thread.fragment<16x1xf32, #rows>
    ```
  }];
  let arguments = (ins Mirage_ReduceFn:$fn, Thread_FragmentType:$operand, I64Attr:$dim,
                       OptionalAttr<I64Attr>:$scratch);
  let results = (outs Thread_FragmentType:$result);
  let assemblyFormat = [{
    $fn $operand `dim` $dim attr-dict `:` type($operand) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Thread_ReduceWarpsOp : Thread_Op<"reduce_warps", [DeclareOpInterfaceMethods<Thread_ScratchOpInterface, ["getScratchBytes"]>,
                                     DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "adds the summands of a partial fragment, through scratch memory";
  let description = [{
    The result may have any layout: every thread adds what it will own, so a
    layout without copies shares the work among the warps.

    ```mlir
    %s = thread.reduce_warps %p {scratch = 0 : i64} : !thread.fragment<16x8xf32, #layout, partial>
      -> !thread.fragment<16x8xf32, #blocked>
    ```
  }];
  let arguments = (ins Thread_FragmentType:$operand, OptionalAttr<I64Attr>:$scratch);
  let results = (outs Thread_FragmentType:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
}

def Thread_BroadcastOp : Thread_FragmentOp<"broadcast"> {
  let summary = "repeats a dimension of size 1";
  let description = [{
    The operand's layout must be the result's with the coordinate along `dim`
    dropped (`LinearLayout::reduce`), so no value leaves its thread.

    ```mlir
    %y = thread.broadcast %x dim 1 : !thread.fragment<16x1xf32, #rows> -> !thread.fragment<16x8xf32, #layout>
    ```
  }];
  let arguments = (ins Thread_FragmentType:$operand, I64Attr:$dim);
  let assemblyFormat = "$operand `dim` $dim attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
}

def Thread_TransposeOp : Thread_FragmentOp<"transpose"> {
  let summary = "swaps rows and columns without moving any value";
  let description = [{
    The result's layout is `LinearLayout::transpose` of the operand's.

    ```mlir
    %t = thread.transpose %x : !thread.fragment<16x8xf32, #layout> -> !thread.fragment<8x16xf32, #transposed>
    ```
  }];
  let arguments = (ins Thread_FragmentType:$operand);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
}

def Thread_SliceOp : Thread_FragmentOp<"slice"> {
  let summary = "a part of a fragment, when every thread keeps registers of its own";
  let description = [{
    The result has the operand's lane and warp vectors, and its registers are
    among the operand's.

    ```mlir
    %s = thread.slice %x [0, 8] : !thread.fragment<16x16xf32, #layout> -> !thread.fragment<16x8xf32, #part>
    ```
  }];
  let arguments = (ins Thread_FragmentType:$operand, DenseI64ArrayAttr:$offsets);
  let assemblyFormat = "$operand $offsets attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
}

def Thread_ConvertLayoutOp : Thread_Op<"convert_layout", [DeclareOpInterfaceMethods<Thread_ScratchOpInterface, ["getScratchBytes"]>,
                                     DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "the same tile in another layout";
  let description = [{
    Free when only registers change places, shuffles when values stay in their
    warp, else an exchange through scratch memory.

    ```mlir
    %y = thread.convert_layout %x {scratch = 0 : i64} : !thread.fragment<16x8xf32, #layout>
      -> !thread.fragment<16x8xf32, #blocked>
    ```
  }];
  let arguments = (ins Thread_FragmentType:$operand, OptionalAttr<I64Attr>:$scratch);
  let results = (outs Thread_FragmentType:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

//===----------------------------------------------------------------------===//
// Global memory
//===----------------------------------------------------------------------===//

def Thread_LoadGlobalOp : Thread_Op<"load_global", [AttrSizedOperandSegments, MemoryEffects<[MemRead]>]> {
  let summary = "loads a tile of a device tensor into registers";
  let description = [{
    Element (r, c) of the tile is the tensor's element at `offsets`, with r added
    along dimension `dims[0]` and c along `dims[1]`. A dimension of -1 is none:
    the tile has extent 1 there. What lies outside the tensor along such a
    dimension reads as 0; where `in_bounds` is true (rows, columns) nothing does,
    as the offsets guarantee, and no check is made. With `extents` (rows,
    columns), what lies outside the first `extents` elements of the tile counts
    as outside the tensor, even where `in_bounds` is true: a 1-row tile held in a
    16-row fragment has `extents [1, 16]`. Offsets are never negative.
    Accesses are as wide as the layout and the provable alignment allow, up to 16
    bytes. With `when`, the load happens only where the condition (the same for
    the whole block) holds, else the result is 0.

    ```mlir
    %x = thread.load_global %a[%h, %i, %j] dims [1, 2] in_bounds [true, false]
      : memref<8x64x100xf16> -> !thread.fragment<16x16xf16, #layout>
    ```
  }];
  let arguments = (ins Thread_GlobalMemRef:$source, Variadic<Index>:$offsets,
                       DenseI64ArrayAttr:$dims, DenseBoolArrayAttr:$in_bounds,
                       OptionalAttr<DenseI64ArrayAttr>:$extents, Optional<I1>:$when);
  let results = (outs Thread_FragmentType:$result);
  let assemblyFormat = [{
    $source `[` $offsets `]` `dims` $dims `in_bounds` $in_bounds (`extents` $extents^)? (`when` $when^)? attr-dict
    `:` type($source) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Thread_StoreGlobalOp : Thread_Op<"store_global", [AttrSizedOperandSegments, MemoryEffects<[MemWrite]>]> {
  let summary = "stores a tile in registers to a device tensor";
  let description = [{
    As `thread.load_global`; elements outside the tensor are dropped. Of several
    owners of an element one stores it.

    ```mlir
    thread.store_global %x, %a[%i, %j] dims [0, 1] in_bounds [true, true]
      : !thread.fragment<16x16xf16, #layout>, memref<64x128xf16>
    ```
  }];
  let arguments = (ins Thread_FragmentType:$value, Thread_GlobalMemRef:$dest,
                       Variadic<Index>:$offsets, DenseI64ArrayAttr:$dims,
                       DenseBoolArrayAttr:$in_bounds,
                       OptionalAttr<DenseI64ArrayAttr>:$extents, Optional<I1>:$when);
  let assemblyFormat = [{
    $value `,` $dest `[` $offsets `]` `dims` $dims `in_bounds` $in_bounds (`extents` $extents^)? (`when` $when^)?
    attr-dict `:` type($value) `,` type($dest)
  }];
  let hasVerifier = 1;
}

def Thread_CopyAsyncOp : Thread_Op<"copy_async", [AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "copies a tile of a device tensor to shared memory, asynchronously";
  let description = [{
    `dims` and `in_bounds` as for `thread.load_global`; what lies outside the
    tensor is filled with zeros. The destination is one slot. Uses `cp.async` of
    16, 8 or 4 bytes when the provable alignment allows it, ordinary loads and
    stores otherwise; either way the data is there for a thread itself after
    `thread.copy_wait`, for the others after a barrier that follows it. With
    `when`, the copy happens only where the condition (the same for the whole
    block) holds.

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

def Thread_CopyCommitOp : Thread_Op<"copy_commit", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "closes a group of asynchronous copies";
  let description = [{
    ```mlir
    thread.copy_commit
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def Thread_CopyWaitOp : Thread_Op<"copy_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until at most `pending` groups of asynchronous copies are under way";
  let description = [{
    Waits for this thread's copies only: a barrier makes the others' visible.

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
    overlap: what their lifetimes are is the planner's business.

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

def Thread_LoadSharedOp : Thread_Op<"load_shared", [MemoryEffects<[MemRead]>]> {
  let summary = "loads a part of a shared tile into registers";
  let description = [{
    The part starts at `at` (row, column of the shared tile; default 0, 0) and
    has the fragment's shape; with `transposed` fragment element (r, c) is shared
    element (at[0] + c, at[1] + r). Uses `ldmatrix` (with `.trans`) where the
    layout allows, else loads as wide as possible.

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
    `at` and `transposed` as for `thread.load_shared`. Of several owners of an
    element one stores it.

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
    ```mlir
    thread.barrier
    ```
  }];
  let assemblyFormat = "attr-dict";
}

//===----------------------------------------------------------------------===//
// Tensor cores
//===----------------------------------------------------------------------===//

def Thread_MmaOp : Thread_FragmentOp<"mma", [AllTypesMatch<["acc", "result"]>]> {
  let summary = "lhs (M x K) times rhs (K x N) plus acc, on tensor cores";
  let description = [{
    f16 or bf16 operands use m16n8k16, f32 operands three m16n8k8 products of
    TF32 parts, which give nearly f32 accuracy (an infinite factor gives NaN,
    whatever its partner). Layouts (`mmaLhsLayout` and so on
    in `Layouts.h` make them): let `m`, `n`, `k` stand for vectors along the three
    dimensions. The lowest register vectors and the lane vectors are

                  registers            lanes
        lhs f16   k0, m3, k3           k1, k2, m0, m1, m2
        rhs f16   k0, k3               k1, k2, n0, n1, n2
        lhs f32   m3, k2               k0, k1, m0, m1, m2
        rhs f32   k2                   k0, k1, n0, n1, n2
        acc       n0, m3               n1, n2, m0, m1, m2

    where the m, n and k of the three operands agree (any vectors will do, so the
    K index may be permuted). Further registers enumerate further tiles; each
    warp's part of the three fragments must fit together. Where the warps split
    K, or an operand is partial, the result is partial. To put few tokens on the
    N side, multiply transposed operands.

    ```mlir
    %d = thread.mma %a, %b, %c : !thread.fragment<16x16xf16, #lhs>, !thread.fragment<16x8xf16, #rhs>,
                                 !thread.fragment<16x8xf32, #acc>
    ```
  }];
  let arguments = (ins Thread_FragmentType:$lhs, Thread_FragmentType:$rhs, Thread_FragmentType:$acc);
  let assemblyFormat = [{
    $lhs `,` $rhs `,` $acc attr-dict `:` type($lhs) `,` type($rhs) `,` type($acc)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Warp roles
//===----------------------------------------------------------------------===//

def Thread_WarpsOp : Thread_Op<"warps", [SingleBlockImplicitTerminator<"EndOp">, RecursiveMemoryEffects, NoRegionArguments]> {
  let summary = "code for some of the warps";
  let description = [{
    Warps `first` to `first + count - 1` execute the body; inside, they are warps
    0 to `count - 1` and their number is what layouts are made for. Fragments are
    not captured. `barrier` (1 to 15) names the hardware barrier that the
    `thread.barrier`s in the body use; roles that run at the same time need
    different ones.

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

#endif // MIRAGE_DIALECT_THREAD_IR_THREADTILEOPS_TD
