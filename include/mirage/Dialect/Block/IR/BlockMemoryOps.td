//===- BlockMemoryOps.td - between device tensors and tiles ----*- tablegen -*-===//

#ifndef MIRAGE_DIALECT_BLOCK_IR_BLOCKMEMORYOPS_TD
#define MIRAGE_DIALECT_BLOCK_IR_BLOCKMEMORYOPS_TD

include "mirage/Dialect/Block/IR/BlockOpBase.td"

def Block_LoadOp : Block_OtherTileOp<"load", "::std::nullopt", "true"> {
  let summary = "this block's tile of a device tensor";
  let description = [{
    The part that `map` selects at this point of the grid and at this step of the
    enclosing loops. Elements outside of the tensor are zero. Integers and truth
    values become f32, which is exact for whole numbers up to 2^24. Whoever writes
    the launch must ensure that there are no larger ones, or that they are only
    compared with smaller ones; a tile of i64 holds the integers themselves, for totals and formulas
    (`block.map_integers`). 8-bit floats become f16, which holds all of them.

    ```mlir
    %w = block.load %gw [[k], [n]] : tensor<4096x6144xf16> -> !block.tile<64x48xf16>
    ```
  }];
  let arguments = (ins Block_DeviceTensor:$source, Block_MapAttr:$map);
  let assemblyFormat = [{
    $source custom<Map>($map) attr-dict `:` type($source) `->` qualified(type($result))
  }];
}

def Block_IotaOp : Block_ElementwiseOp<"iota", "1", "false"> {
  let summary = "this block's positions along a dimension";
  let description = [{
    Element `i` along `dim` is `part(axes) * tile + i`, where `tile` is the result's
    size along `dim`, or 0 if that is not below `extent`. This is what `block.load`
    would read from a `kernel.iota` of that extent.

    ```mlir
    %i = block.iota dim 0 [n] extent 2048 : !block.tile<16xf32>
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$dim, StrArrayAttr:$axes,
                       ConfinedAttr<I64Attr, [IntPositive]>:$extent);
  let assemblyFormat = [{
    `dim` $dim custom<AxisNames>($axes) `extent` $extent attr-dict `:` qualified(type($result))
  }];
}

def Block_GatherOp : Block_OtherTileOp<"gather", "::std::nullopt", "true"> {
  let summary = "this block's tile of rows of a table, by index";
  let description = [{
    What `block.load` with `map` would read from the `kernel.gather` of `table` and
    `indices`. Rows whose index is negative or not below the number of rows are NaN;
    nothing is read for them. With `from_end`, negative indices count from the end of the
    table.

    ```mlir
    %x = block.gather %table, %ids [[], [n], []] : tensor<1000x64xf16>, tensor<2x16xi64> -> !block.tile<2x8x64xf16>
    ```
  }];
  let arguments = (ins Block_FloatTensor:$table, Block_IndexTensor:$indices, Block_MapAttr:$map,
                       UnitAttr:$from_end);
  let assemblyFormat = [{
    $table `,` $indices custom<Map>($map) (`from_end` $from_end^)? attr-dict
    `:` type($table) `,` type($indices) `->` qualified(type($result))
  }];
  let extraClassDeclaration = extraDeclaration # [{
    /// The tensor of which this is a tile.
    ::mlir::RankedTensorType getGatheredType();
  }];
}

def Block_IntegersOp : Block_OtherTileOp<"integers", "::std::nullopt", "true"> {
  let summary = "this block's tile of exact arithmetic on integers";
  let description = [{
    What `block.load` with `map` would read from the `kernel.integers` of the operands
    that has the shape `of` and this formula; elements outside of it are zero. A tile
    of i64 has integers as they are. In other tiles truth
    values and integers become f32, as they do when they are loaded. The step `position 1 : i64`
    means a load of positions along that dimension.

    ```mlir
    %m = block.integers %a, %b [[n], []] of [32, 16] ["load 0", "load 1", "le 1 0 : i1"]
         : (tensor<32xi64>, tensor<16xi64>) -> !block.tile<8x16xf32>
    ```
  }];
  let arguments = (ins Variadic<Block_DeviceTensor>:$inputs, Block_MapAttr:$map,
                       DenseI64ArrayAttr:$shape, StrArrayAttr:$formula);
  let assemblyFormat = [{
    $inputs custom<Map>($map) `of` $shape $formula attr-dict `:` functional-type($inputs, $result)
  }];
  let extraClassDeclaration = extraDeclaration # [{
    /// The tensor of which this is a tile.
    ::mlir::RankedTensorType getComputedType();
    ::mirage::IntegerFormula getParsedFormula();
  }];
}

def Block_ScalarOp : Block_Op<"scalar", [Pure, HasParent<"::mirage::kernel::LaunchOp">]> {
  let summary = "an integer that this block reads, as a bound of its loops";
  let description = [{
    The greatest (`max`) or the least (`min`) element of the block's part of an
    integer tensor, clamped to `[least, most]`, so that computations with the result
    do not overflow, whatever the tensor contains. `map` cuts the tensor, along axes of
    the grid only, into parts of the shape `of`, which cover it without overhang and
    have at most 128 elements. Here the block reads the length of its sequence:

    ```mlir
    %n = block.scalar max %lengths [[s], []] of [1, 1] within [0, 512] : tensor<2x1xi64>
    ```
  }];
  let arguments = (ins Block_ExtremeFn:$fn, Block_IndexTensor:$source, Block_MapAttr:$map,
                       DenseI64ArrayAttr:$tile, I64Attr:$least, I64Attr:$most);
  let results = (outs Index:$result);
  let assemblyFormat = [{
    $fn $source custom<Map>($map) `of` $tile `within` `[` $least `,` $most `]` attr-dict
    `:` type($source)
  }];
  let hasVerifier = 1;
}

def Block_LaunchTerminator : NativeOpTrait<"LaunchTerminator"> {
  let cppNamespace = "::mirage::kernel";
}

def Block_StoreOp : Block_Op<"store", [Terminator, Block_LaunchTerminator,
                                       HasParent<"::mirage::kernel::LaunchOp">]> {
  let summary = "the results of a launch";
  let description = [{
    Writes each tile to the part of the launch's result of the same position that
    its map selects. A map names every axis of the grid, except for axes along which
    all blocks hold the same tile; only one of them then writes it.

    ```mlir
    block.store %a [[], [n]], %s [[], []] : !block.tile<16x48xf32>, !block.tile<16x1xf32>
    ```
  }];
  let arguments = (ins Variadic<Block_TileType>:$tiles,
                       TypedArrayAttrBase<Block_MapAttr, "maps">:$maps);
  let assemblyFormat = "custom<Stores>($tiles, $maps) attr-dict (`:` type($tiles)^)?";
  let hasVerifier = 1;
}

#endif // MIRAGE_DIALECT_BLOCK_IR_BLOCKMEMORYOPS_TD
