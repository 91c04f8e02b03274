//===- BlockTypes.td - types of the block dialect --------------*- tablegen -*-===//

#ifndef MIRAGE_DIALECT_BLOCK_IR_BLOCKTYPES_TD
#define MIRAGE_DIALECT_BLOCK_IR_BLOCKTYPES_TD

include "mirage/Dialect/Block/IR/BlockDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinTypeInterfaces.td"

def Block_TileType : TypeDef<Block_Dialect, "Tile"> {
  let mnemonic = "tile";
  let summary = "a tile that one thread block holds";
  let description = [{
    It has a static shape, an element type and, once it has been chosen, a `layout`,
    which says where and how the tile is held. Elements are floats, or exact integers
    (i64), which are loaded or computed by `block.integers`; they are added up, reduced,
    scanned, mapped by `block.map_integers`, moved and stored.

    Examples: `!block.tile<16x64xf16>`, `!block.tile<f32>`.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$elementType,
                        OptionalParameter<"::mlir::Attribute">:$layout);
  let builders = [
    TypeBuilderWithInferredContext<(ins "::llvm::ArrayRef<int64_t>":$shape,
                                        "::mlir::Type":$elementType), [{
      return $_get(elementType.getContext(), shape, elementType, ::mlir::Attribute());
    }]>
  ];
  let assemblyFormat = "`<` custom<TileShape>($shape, $elementType) (`,` $layout^)? `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getRank() const { return getShape().size(); }
    int64_t getNumElements() const;
    /// Size in bytes when stored densely.
    int64_t getSizeInBytes() const;
    TileType withElementType(::mlir::Type type) const {
      return get(getContext(), getShape(), type, getLayout());
    }
    TileType withLayout(::mlir::Attribute layout) const {
      return get(getContext(), getShape(), getElementType(), layout);
    }
  }];
}

#endif // MIRAGE_DIALECT_BLOCK_IR_BLOCKTYPES_TD
