//===- ThreadFragmentOps.td - ops on registers -------------*- tablegen -*-===//

#ifndef MIRAGE_DIALECT_THREAD_IR_THREADFRAGMENTOPS_TD
#define MIRAGE_DIALECT_THREAD_IR_THREADFRAGMENTOPS_TD

include "mirage/Dialect/Thread/IR/ThreadOpBase.td"

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
  let arguments = (ins AnyTypeOf<[F16, BF16, F32, I32, I64]>:$value);
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
    Functions of f16 and bf16 operands are computed in f32 and rounded once, except
    for those that are exact in the operand's type (neg, abs, relu).

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
    Operands of a smaller shape must first be extended to the common shape by
    `thread.broadcast`. Functions of f16 and bf16 operands are computed in f32 and
    rounded once, except for max and min. Only add and sub are allowed on partial
    operands.

    ```mlir
    %s = thread.binary add %x, %y : !thread.fragment<16x8xf32, #layout>
    ```
  }];
  let arguments = (ins Mirage_BinaryFn:$fn, Thread_FragmentType:$lhs, Thread_FragmentType:$rhs);
  let assemblyFormat = "$fn $lhs `,` $rhs attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Thread_IntegersOp : Thread_Op<"integers", [AttrSizedOperandSegments,
                                  DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "exact arithmetic on integers, element by element";
  let description = [{
    The formula of `block.integers`, of operands that have the result's layout, one
    for each load and each position: integers of any width are held as i64, floats as
    f32. If the result is f32, integers and truth values are converted. Elements of the
    `tables` in device memory are read where they are picked.

    ```mlir
    %s = thread.integers %x, %y ["load 0 1", "load 0 1", "add 0 1 : i32"]
      : (!thread.fragment<16x8xi64, #layout>, !thread.fragment<16x8xi64, #layout>)
      -> !thread.fragment<16x8xi64, #layout>
    ```
  }];
  let arguments = (ins Variadic<Thread_FragmentType>:$inputs,
                       Variadic<Thread_GlobalMemRef>:$tables, StrArrayAttr:$formula);
  let results = (outs Thread_FragmentType:$result);
  let assemblyFormat = [{
    $inputs (`tables` `(` $tables^ `:` type($tables) `)`)? $formula attr-dict `:`
    functional-type($inputs, $result)
  }];
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

def Thread_RescaleOp : Thread_FragmentOp<"rescale", [AllTypesMatch<["operand", "result"]>]> {
  let summary = "each element times that of a complete fragment; allowed on partial fragments";
  let description = [{
    The factor has the type of the operand but is never partial: all summands of an
    element are multiplied by the same number.

    ```mlir
    %s = thread.rescale %x by %f : !thread.fragment<16x8xf32, #layout, partial>, !thread.fragment<16x8xf32, #layout>
    ```
  }];
  let arguments = (ins Thread_FragmentType:$operand, Thread_FragmentType:$factor);
  let assemblyFormat = "$operand `by` $factor attr-dict `:` type($operand) `,` type($factor)";
  let hasVerifier = 1;
}

def Thread_CastOp : Thread_FragmentOp<"cast"> {
  let summary = "conversion between f16, bf16 and f32, to nearest even";
  let description = [{
    The layout stays the same. Summands of a partial fragment are rounded one by one.

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
  let summary = "overwrites elements outside a tensor";
  let description = [{
    Element `i` along `dim` is kept where `offset + i < extent`, and replaced by
    `fill` elsewhere; with `below` it is kept where `offset + i >= extent`.

    ```mlir
    %m = thread.mask %x dim 1 at %col extent 100 fill 0xFFF0000000000000 : !thread.fragment<16x8xf32, #layout>
    ```
  }];
  let arguments = (ins Thread_FragmentType:$operand, I64Attr:$dim, Index:$offset, I64Attr:$extent,
                       F64Attr:$fill, UnitAttr:$below);
  let assemblyFormat = [{
    $operand `dim` $dim `at` $offset (`below` $below^)? `extent` $extent `fill` $fill attr-dict
    `:` type($result)
  }];
  let hasVerifier = 1;
}

def Thread_ExceedsOp : Thread_Op<"exceeds", [Pure]> {
  let summary = "whether an element that the warp holds is beyond a limit, or NaN";
  let description = [{
    The result is the same in all lanes of a warp, so that the warp may branch on it;
    other warps may have a different result. Minus infinity is below every limit.

    ```mlir
    %again = thread.exceeds %sums, 8192.0 : !thread.fragment<16x1xf32, #rows>
    ```
  }];
  let arguments = (ins Thread_FragmentType:$operand, F64Attr:$limit);
  let results = (outs I1:$result);
  let assemblyFormat = "$operand `,` $limit attr-dict `:` type($operand)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Changes of shape and layout
//===----------------------------------------------------------------------===//

def Thread_ReduceOp : Thread_Op<"reduce", [DeclareOpInterfaceMethods<Thread_ScratchOpInterface, ["getScratchBytes"]>,
                                     DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "sum or maximum along one dimension, which keeps size 1";
  let description = [{
    Elements are f32, or i64, whose sums wrap around.
    The result's layout is the operand's with the coordinate along `dim` dropped
    (`LinearLayout::reduce`): every owner gets the result. First, each thread reduces
    its registers, then lanes exchange values by shuffles, and if `dim` is spread over
    several warps, these exchange values through scratch memory. If the result is
    partial (sums only), this last step is omitted.

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
    The result may have any layout: every thread adds the elements that it will own, so
    with a layout without copies the work is shared among the warps.

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

def Thread_CumulateOp : Thread_Op<"cumulate", [SameOperandsAndResultType,
                                       DeclareOpInterfaceMethods<Thread_ScratchOpInterface, ["getScratchBytes"]>,
                                       DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "sums, maxima or products of the elements so far along one dimension";
  let description = [{
    Elements are f32, or i64, whose sums and products wrap around.
    The layout is the operand's. The bits of positions along `dim` are taken from the
    lowest to the highest: with each, the part whose bit is set is combined with the total of
    the part whose bit is not. Totals of other registers are at hand, those of other lanes
    are exchanged by shuffles, and those of other warps through scratch memory. With
    `exclusive`, an element is not in its own result; the first result is 0, minus
    infinity (of i64: the least integer), or 1. With `reversed`, parts whose bit is not set are combined with totals of those
    whose bit is.

    ```mlir
    %c = thread.cumulate sum %x dim 1 {scratch = 1024 : i64} : !thread.fragment<16x8xf32, #layout>
    ```
  }];
  let arguments = (ins Mirage_CumulateFn:$fn, Thread_FragmentType:$operand, I64Attr:$dim,
                       UnitAttr:$exclusive, UnitAttr:$reversed, OptionalAttr<I64Attr>:$scratch);
  let results = (outs Thread_FragmentType:$result);
  let assemblyFormat = [{
    $fn (`exclusive` $exclusive^)? (`reversed` $reversed^)? $operand `dim` $dim attr-dict `:` type($operand)
  }];
  let hasVerifier = 1;
}

def Thread_ArgsortOp : Thread_Op<"argsort", [DeclareOpInterfaceMethods<Thread_ScratchOpInterface, ["getScratchBytes"]>,
                                     DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "the places along one dimension of the elements in order";
  let description = [{
    Elements are f32 or i64, and places i64; the layouts are the same. The first `size` elements
    along `dim` are put in order, and all others come after them. Pairs of an element
    and its place are sorted by a bitonic network, in which each one is compared with that of
    the thread whose position differs in one bit. That is another register, another lane (by a
    shuffle), or another warp (through scratch memory).

    ```mlir
    %p = thread.argsort descending %x dim 1 size 6 : !thread.fragment<16x8xf32, #layout> -> !thread.fragment<16x8xi64, #layout>
    ```
  }];
  let arguments = (ins UnitAttr:$descending, Thread_FragmentType:$operand, I64Attr:$dim,
                       I64Attr:$size, OptionalAttr<I64Attr>:$scratch);
  let results = (outs Thread_FragmentType:$result);
  let assemblyFormat = [{
    (`descending` $descending^)? $operand `dim` $dim `size` $size attr-dict `:` type($operand) `->` type($result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Whether an element and its place are one integer of 64 bits.
    bool isPacked() { return getOperand().getType().getElementType().isF32(); }
    /// The number of bytes of an element and its place.
    int64_t getExchangedBytes() { return isPacked() ? 8 : 12; }
  }];
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
  let summary = "a part of a fragment for which no value leaves its thread";
  let description = [{
    The result has the operand's lane and warp vectors, and its registers are
    some of the operand's.

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
    The conversion is free if values only change registers within their thread. It
    takes shuffles if values stay in their warp, and otherwise an exchange through
    scratch memory.

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
// Tensor cores
//===----------------------------------------------------------------------===//

def Thread_MmaOp : Thread_FragmentOp<"mma", [AllTypesMatch<["acc", "result"]>]> {
  let summary = "lhs (M x K) times rhs (K x N) plus acc, on tensor cores";
  let description = [{
    Operands in f16 or bf16 use m16n8k16. Operands in f32 use three m16n8k8 products of
    TF32 parts (two if a factor is a cast from 16 bits), which gives nearly f32
    accuracy; an infinite factor gives NaN, whatever the other factor is. With `tf32`, operands
    in f32 are rounded to TF32 and multiplied once. Layouts
    (`mmaLhsLayout` and so on in `Layouts.h`): let `m`, `n` and `k` stand for vectors
    along the dimensions. The lowest register vectors and the lane vectors are

                  registers            lanes
        lhs f16   k0, m3, k3           k1, k2, m0, m1, m2
        rhs f16   k0, k3               k1, k2, n0, n1, n2
        lhs f32   m3, k0               k1, k2, m0, m1, m2
        rhs f32   k0                   k1, k2, n0, n1, n2
        acc       n0, m3               n1, n2, m0, m1, m2

    where the m, n and k of the three operands agree (any vectors are allowed, so the
    K index may be permuted). Further registers enumerate further tiles; each
    warp's parts of the three fragments must fit together. If the warps split K, or an
    operand is partial, the result is partial. To put few tokens on the N side,
    multiply transposed operands.

    ```mlir
    %d = thread.mma %a, %b, %c : !thread.fragment<16x16xf16, #lhs>, !thread.fragment<16x8xf16, #rhs>,
                                 !thread.fragment<16x8xf32, #acc>
    ```
  }];
  let arguments = (ins Thread_FragmentType:$lhs, Thread_FragmentType:$rhs, Thread_FragmentType:$acc,
                       UnitAttr:$tf32);
  let assemblyFormat = [{
    $lhs `,` $rhs `,` $acc (`tf32` $tf32^)? attr-dict `:` type($lhs) `,` type($rhs) `,` type($acc)
  }];
  let hasVerifier = 1;
}

#endif // MIRAGE_DIALECT_THREAD_IR_THREADFRAGMENTOPS_TD
