//===- BlockOps.td - ops of the block dialect ------------------*- tablegen -*-===//

#ifndef MIRAGE_DIALECT_BLOCK_IR_BLOCKOPS_TD
#define MIRAGE_DIALECT_BLOCK_IR_BLOCKOPS_TD

include "mirage/Dialect/Block/IR/BlockMemoryOps.td"
include "mirage/Dialect/Block/IR/BlockOpBase.td"

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

def Block_LoopOp : Block_Op<"loop", [RecursiveMemoryEffects,
                                     SingleBlockImplicitTerminator<"AccumulateOp">]> {
  let summary = "steps along an axis, with accumulators";
  let description = [{
    Runs the body `extent` times; the results are the final values of the
    accumulators that the terminator lists. Loops can follow one another and nest;
    the names of their axes are unique in the launch.

    With `steps`, a block takes only some of the steps: the map computes the first
    step and the end (the step after the last one) from the block's positions along
    the grid axes `stepAxes`. The first step is clamped to `[0, extent - 1]` and the
    end to `[first + 1, extent]`, so that each block takes at least one step. Here,
    a block of 128 rows sees the keys up to its last row, 64 at a time:

    ```mlir
    %t = block.loop [k = 64] steps affine_map<(d0) -> (0, d0 * 2 + 2)> of [n] {
      %v = block.load %gv [[k]] : tensor<4096xf16> -> !block.tile<64xf16>
      block.accumulate sum %v : !block.tile<64xf16>
    } : !block.tile<64xf16>
    ```

    Symbols of the map are integers that the block reads (`with`); its steps are then
    known only when it runs. Here, steps beyond the last visible position are not taken:

    ```mlir
    %n = block.scalar max %position [[]] of [1] within [-1, 4095] : tensor<1xi64>
    %u = block.loop [k = 64] steps affine_map<()[s0] -> (0, s0 floordiv 64 + 1)> of [] with (%n) {
      %v = block.load %gv [[k]] : tensor<4096xf16> -> !block.tile<64xf16>
      block.accumulate sum %v : !block.tile<64xf16>
    } : !block.tile<64xf16>
    ```

    ```mlir
    %a, %s = block.loop [k = 64] {
      %x = block.load %gx [[], [k]] : tensor<16x4096xf16> -> !block.tile<16x64xf16>
      %w = block.load %gw [[k], [n]] : tensor<4096x6144xf16> -> !block.tile<64x48xf16>
      %p = block.matmul %x, %w : (!block.tile<16x64xf16>, !block.tile<64x48xf16>) -> !block.tile<16x48xf32>
      %q = block.unary square %x : (!block.tile<16x64xf16>) -> !block.tile<16x64xf32>
      %r = block.reduce sum %q dims [1] : (!block.tile<16x64xf32>) -> !block.tile<16x1xf32>
      block.accumulate sum %p, sum %r : !block.tile<16x48xf32>, !block.tile<16x1xf32>
    } : !block.tile<16x48xf32>, !block.tile<16x1xf32>
    ```
  }];
  let arguments = (ins StrAttr:$axis, ConfinedAttr<I64Attr, [IntPositive]>:$extent,
                       OptionalAttr<ConfinedAttr<I64Attr, [IntPositive]>>:$stages,
                       OptionalAttr<AffineMapAttr>:$steps, OptionalAttr<StrArrayAttr>:$stepAxes,
                       Variadic<Index>:$stepValues);
  let results = (outs Variadic<Block_TileType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    custom<Axis>($axis, $extent) (`steps` $steps^ `of` custom<AxisNames>($stepAxes))?
    (`with` `(` $stepValues^ `)`)?
    attr-dict-with-keyword $body (`:` type($results)^)?
  }];
  let extraClassDeclaration = [{
    /// The first step and the end for blocks at `positions` along `stepAxes`, for a loop
    /// without `stepValues`.
    std::pair<int64_t, int64_t> getStepRange(::llvm::ArrayRef<int64_t> positions);
    /// Whether the steps are known only when the block runs.
    bool hasStepsAtRunTime() { return !getStepValues().empty(); }
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Block_AccumulateOp : Block_Op<"accumulate", [Pure, Terminator, AttrSizedOperandSegments,
                                                 HasParent<"LoopOp">]> {
  let summary = "what a loop accumulates";
  let description = [{
    There is one accumulator for each value: the sum or maximum of the value over
    the steps, or its value at the last step. Those of exact integers (i64) are exact, and wrap
    around. A sum of floats may be rescaled by a running
    maximum `m` of the same loop: before a step's value is added, the sum so far is
    multiplied by `exp(m_previous - m_now)`. If the values carry a factor
    `exp(-m_now)`, the result is the sum with the factor `exp(-m_final)` (Milakov &
    Gimelshein, arXiv 1805.02867).

    ```mlir
    block.accumulate sum %o rescale %m, sum %l rescale %m, last %m
        : !block.tile<16x64xf32>, !block.tile<16x1xf32>, !block.tile<16x1xf32>
        rescale : !block.tile<16x1xf32>, !block.tile<16x1xf32>
    ```
  }];
  let arguments = (ins TypedArrayAttrBase<Block_AccumulateFnAttr, "functions">:$fns,
                       Variadic<Block_TileType>:$values,
                       Variadic<Block_TileType>:$rescales,
                       DenseI64ArrayAttr:$rescaled);
  let assemblyFormat = [{
    custom<Accumulators>($fns, $values, $rescales, $rescaled, type($values), type($rescales)) attr-dict
  }];
  let builders = [OpBuilder<(ins), [{
    build($_builder, $_state, $_builder.getArrayAttr({}), ::mlir::ValueRange(), ::mlir::ValueRange(),
          $_builder.getDenseI64ArrayAttr({}));
  }]>];
  let extraClassDeclaration = [{
    /// The running maximum that rescales accumulator `index`, or null.
    ::mlir::Value getRescale(int64_t index);
    AccumulateFn getFn(int64_t index);
  }];
  let hasVerifier = 1;
}

def Block_RunningMaxOp : Block_ElementwiseOp<"running_max", "1", "true", [AllTypesMatch<["input", "result"]>]> {
  let summary = "the maximum over the steps of the loop so far";
  let description = [{
    The element-wise maximum of the operand over all steps of the innermost
    loop up to and including this one.

    ```mlir
    %m = block.running_max %r : !block.tile<16x1xf32>
    ```
  }];
  let arguments = (ins Block_TileType:$input);
  let assemblyFormat = "$input attr-dict `:` qualified(type($result))";
}

//===----------------------------------------------------------------------===//
// Computation on tiles
//===----------------------------------------------------------------------===//

def Block_ConstantOp : Block_Op<"constant", [Pure, ConstantLike]> {
  let summary = "a scalar constant";
  let description = [{
    A rank-0 tile, which is broadcast where it is used. Constants are exact numbers: a
    double stands for the number that it was written for (see
    `mirage/semantics/numbers.py`), so `1.0e-06` is exactly one millionth. If a different
    number is meant, the attribute `exact` gives it as a fraction, and the double is the
    one nearest to it.

    ```mlir
    %c = block.constant 2.500000e-01 : !block.tile<f32>
    ```
  }];
  let arguments = (ins F64Attr:$value);
  let results = (outs Block_TileType:$result);
  let assemblyFormat = "custom<Float>($value) attr-dict `:` qualified(type($result))";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Block_UnaryOp : Block_ElementwiseOp<"unary", "::mirage::getWork(getFn())", "::mirage::isZeroAtZero(getFn())"> {
  let summary = "a scalar function of each element";
  let description = [{
    ```mlir
    %y = block.unary silu %x : (!block.tile<16x64xf16>) -> !block.tile<16x64xf32>
    ```
  }];
  let arguments = (ins Mirage_UnaryFn:$fn, Block_TileType:$input);
  let assemblyFormat = "$fn $input attr-dict `:` functional-type($input, $result)";
}

def Block_BinaryOp : Block_ElementwiseOp<"binary", "1", "::mirage::isZeroAtZero(getFn())"> {
  let summary = "a function of each pair of elements";
  let description = [{
    Operands are broadcast as in NumPy.

    ```mlir
    %z = block.binary mul %x, %r : (!block.tile<16x64xf32>, !block.tile<16x1xf32>) -> !block.tile<16x64xf32>
    ```
  }];
  let arguments = (ins Mirage_BinaryFn:$fn, Block_TileType:$lhs, Block_TileType:$rhs);
  let assemblyFormat = "$fn $lhs `,` $rhs attr-dict `:` functional-type(operands, $result)";
  let hasCanonicalizer = 1;
}

def Block_MapIntegersOp : Block_ElementwiseOp<"map_integers", "getParsedFormula().getWork()", "false"> {
  let summary = "exact arithmetic on tiles of integers, element by element";
  let description = [{
    The last step of a formula (`kernel.integers`) of the operands, which are broadcast as
    in NumPy: the steps `load` stand for them, in order. Operands are tiles of exact
    integers (i64), or of f32, which are only converted. A tile of i64 holds the result itself; in a
    tile of f32, truth values and integers are converted.

    ```mlir
    %y = block.map_integers %x, %m ["load", "load", "sub 0 1 : i64"]
         : (!block.tile<16x64xi64>, !block.tile<16x1xi64>) -> !block.tile<16x64xi64>
    ```
  }];
  let arguments = (ins Variadic<Block_TileType>:$inputs, StrArrayAttr:$formula);
  let assemblyFormat = "$inputs $formula attr-dict `:` functional-type($inputs, $result)";
  let extraClassDeclaration = extraDeclaration # [{
    ::mirage::IntegerFormula getParsedFormula();
  }];
}

def Block_CastOp : Block_ElementwiseOp<"cast", "1", "true"> {
  let summary = "conversion to another element type";
  let description = [{
    ```mlir
    %y = block.cast %x : (!block.tile<16x64xf32>) -> !block.tile<16x64xf16>
    ```
  }];
  let arguments = (ins Block_TileType:$input);
  let assemblyFormat = "$input attr-dict `:` functional-type($input, $result)";
  let hasFolder = 1;
}

// Its leading dimensions have been dropped before any query.
def Block_MatmulOp : Block_OtherTileOp<"matmul",
    "operand == dim ? ::std::optional<unsigned>(dim) : ::std::optional<unsigned>()", "false"> {
  let summary = "matrix product over the last two dimensions";
  let description = [{
    `[..., m, k] x [..., k, n] -> [..., m, n]`; leading dimensions are broadcast. With
    `tf32`, factors of f32 are rounded to TF32, as those of a `kernel.matmul`.
    `mirage-assign-layouts` records how the warps share the product. `warps` are the
    numbers of warps along m, n and k. `swapped` computes the transposed product,
    which puts few rows on the small side of the tensor-core instruction. With
    `warpgroup`, groups of four warps multiply tiles in shared memory.

    ```mlir
    %p = block.matmul %x, %w : (!block.tile<16x64xf16>, !block.tile<64x48xf16>) -> !block.tile<16x48xf32>
    ```
  }];
  let arguments = (ins Block_TileType:$lhs, Block_TileType:$rhs,
                       OptionalAttr<DenseI64ArrayAttr>:$warps, UnitAttr:$swapped,
                       UnitAttr:$warpgroup, UnitAttr:$tf32);
  let assemblyFormat = "$lhs `,` $rhs (`tf32` $tf32^)? attr-dict `:` functional-type(operands, $result)";
}

def Block_ReduceOp : Block_OtherTileOp<"reduce",
    "::llvm::is_contained(getDims(), dim) ? ::std::optional<unsigned>() : ::std::optional<unsigned>(dim)", "true"> {
  let summary = "reduction over dimensions of a tile";
  let description = [{
    Reduced dimensions keep size 1; `dims` is sorted. The total of exact integers (i64) is
    exact, too, and wraps around.

    ```mlir
    %s = block.reduce sum %x dims [1] : (!block.tile<16x64xf32>) -> !block.tile<16x1xf32>
    ```
  }];
  let arguments = (ins Mirage_ReduceFn:$fn, Block_TileType:$input, DenseI64ArrayAttr:$dims);
  let assemblyFormat = "$fn $input `dims` $dims attr-dict `:` functional-type($input, $result)";
  let hasFolder = 1;
}

def Block_ClusterReduceOp : Block_ElementwiseOp<"cluster_reduce", "1", "true", [AllTypesMatch<["input", "result"]>]> {
  let summary = "sum or maximum over the blocks of a cluster";
  let description = [{
    The element-wise sum or maximum of the operand over all blocks along a grid axis; these are
    one cluster, and all of them get the result, the same to the bit. A sum may be rescaled, as
    the accumulators of a loop are: where `m` is the maximum of a block's own part and `m_all`
    that of all blocks, each summand is multiplied by `exp(m - m_all)`.

    Inserted by `mirage-split-over-clusters`, outside of loops.

    ```mlir
    %a = block.cluster_reduce sum %l rescale %m along [s] : !block.tile<16x1xf32> rescale : !block.tile<16x1xf32>
    %b = block.cluster_reduce max %m along [s] : !block.tile<16x1xf32>
    ```
  }];
  let arguments = (ins Mirage_ReduceFn:$fn, Block_TileType:$input, Optional<Block_TileType>:$rescale,
                       StrArrayAttr:$axes);
  let assemblyFormat = [{
    $fn $input (`rescale` $rescale^)? `along` custom<AxisNames>($axes) attr-dict `:` qualified(type($result))
    (`rescale` `:` qualified(type($rescale))^)?
  }];
  let extraClassDeclaration = extraDeclaration # [{
    /// The axis of the grid along which the blocks of the cluster are.
    ::llvm::StringRef getAxis();
  }];
}

def Block_CumulateOp : Block_OtherTileOp<"cumulate", "::std::optional<unsigned>(dim)", "false"> {
  let summary = "sums, maxima or products of the elements so far along a dimension of a tile";
  let description = [{
    Each element is the sum, the maximum or the product of the operand's elements up to it along
    `dim`. With `exclusive`, it is that of the elements before it, of which the first
    has none: its result is 0, minus infinity (of i64: the least integer), or 1. With `reversed`,
    elements are taken from the last to the first.

    ```mlir
    %c = block.cumulate sum %x dim 1 : (!block.tile<16x64xf32>) -> !block.tile<16x64xf32>
    ```
  }];
  let arguments = (ins Mirage_CumulateFn:$fn, Block_TileType:$input,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$dim, UnitAttr:$exclusive, UnitAttr:$reversed);
  let assemblyFormat = [{
    $fn (`exclusive` $exclusive^)? (`reversed` $reversed^)? $input `dim` $dim attr-dict `:` functional-type($input, $result)
  }];
}

def Block_ArgsortOp : Block_OtherTileOp<"argsort", "::std::optional<unsigned>(dim)", "false"> {
  let summary = "the places of the elements of each line of a tile in order";
  let description = [{
    Element `i` of a line of the result along `dim` is the index of the line's element of
    rank `i` in ascending order, or with `descending` in descending order. Equal elements
    keep their order, and NaN is larger than all numbers.

    ```mlir
    %p = block.argsort descending %x dim 1 : (!block.tile<1x500xf32>) -> !block.tile<1x500xi64>
    ```
  }];
  let arguments = (ins Block_TileType:$input, ConfinedAttr<I64Attr, [IntNonNegative]>:$dim,
                       UnitAttr:$descending);
  let assemblyFormat = [{
    (`descending` $descending^)? $input `dim` $dim attr-dict `:` functional-type($input, $result)
  }];
}

def Block_TransposeOp : Block_OtherTileOp<"transpose",
    "unsigned(::llvm::find(getPermutation(), dim) - getPermutation().begin())", "true"> {
  let summary = "reorder dimensions";
  let description = [{
    Dimension `i` of the result is dimension `permutation[i]` of the operand.

    ```mlir
    %y = block.transpose %x [1, 0] : (!block.tile<16x64xf16>) -> !block.tile<64x16xf16>
    ```
  }];
  let arguments = (ins Block_TileType:$input, DenseI64ArrayAttr:$permutation);
  let assemblyFormat = "$input $permutation attr-dict `:` functional-type($input, $result)";
  let hasFolder = 1;
}

def Block_ReshapeOp : Block_OtherTileOp<"reshape", "::std::nullopt", "true"> {
  let summary = "add or drop dimensions of size 1";
  let description = [{
    The two shapes differ in dimensions of size 1 only.

    ```mlir
    %y = block.reshape %x : (!block.tile<1x16x64xf16>) -> !block.tile<16x64xf16>
    ```
  }];
  let arguments = (ins Block_TileType:$input);
  let assemblyFormat = "$input attr-dict `:` functional-type($input, $result)";
  let hasFolder = 1;
}

def Block_BroadcastOp : Block_ElementwiseOp<"broadcast", "0", "false"> {
  let summary = "repeat dimensions of size 1";
  let description = [{
    ```mlir
    %y = block.broadcast %x : (!block.tile<16x1xf32>) -> !block.tile<16x64xf32>
    ```
  }];
  let arguments = (ins Block_TileType:$input);
  let assemblyFormat = "$input attr-dict `:` functional-type($input, $result)";
  let hasFolder = 1;
}

def Block_ConvertLayoutOp : Block_OtherTileOp<"convert_layout", "dim", "true"> {
  let summary = "the same tile, held in another place or layout";
  let description = [{
    Inserted by `mirage-assign-layouts`. It converts from shared memory to registers,
    from one register layout to another, from the summands that the warps hold to
    their sum, or from registers to shared memory (for a left factor of warpgroups
    that all steps of a loop read).

    ```mlir
    %y = block.convert_layout %x : (!block.tile<16x64xf16>) -> !block.tile<16x64xf16>
    ```
  }];
  let arguments = (ins Block_TileType:$input);
  let assemblyFormat = "$input attr-dict `:` functional-type($input, $result)";
  let hasFolder = 1;
}

def Block_MaskOp : Block_ElementwiseOp<"mask", "1", "getFill().isZero()", [AllTypesMatch<["input", "result"]>]> {
  let summary = "overwrite what lies outside of the tensor";
  let description = [{
    Element `i` along `dim` is kept if `part(axes) * tile + i < extent`, where `tile`
    is the operand's size along `dim`, and is replaced by `fill` otherwise; minus infinity stands
    for the least integer.

    ```mlir
    %y = block.mask %x dim 1 [s, k] extent 4000 fill -0.000000e+00 : !block.tile<16x64xf32>
    ```
  }];
  let arguments = (ins Block_TileType:$input, ConfinedAttr<I64Attr, [IntNonNegative]>:$dim,
                       StrArrayAttr:$axes, ConfinedAttr<I64Attr, [IntPositive]>:$extent,
                       F64Attr:$fill);
  let assemblyFormat = [{
    $input `dim` $dim custom<AxisNames>($axes) `extent` $extent `fill` custom<Float>($fill)
    attr-dict `:` qualified(type($result))
  }];
}

#endif // MIRAGE_DIALECT_BLOCK_IR_BLOCKOPS_TD
