//===- BlockOpBase.td - what ops of the block dialect share ----*- tablegen -*-===//

#ifndef MIRAGE_DIALECT_BLOCK_IR_BLOCKOPBASE_TD
#define MIRAGE_DIALECT_BLOCK_IR_BLOCKOPBASE_TD

include "mirage/Dialect/Block/IR/BlockAttrs.td"
include "mirage/Dialect/Block/IR/BlockDialect.td"
include "mirage/Dialect/Block/IR/BlockInterfaces.td"
include "mirage/Dialect/Block/IR/BlockTypes.td"
include "mirage/Dialect/Common/ScalarOps.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/CommonTypeConstraints.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

/// Elements are floats, signed integers or truth values (one byte each).
def Block_DeviceTensor : StaticShapeTensorOf<[F16, BF16, F32, F64, F8E4M3FN, F8E5M2, I1, I8, I16, I32, I64]>;
def Block_FloatTensor : StaticShapeTensorOf<[F16, BF16, F32]>;
def Block_IndexTensor : StaticShapeTensorOf<[I32, I64]>;

/// `[[], [k]]`: an array (one entry for each dimension) of arrays of axis names.
def Block_MapAttr : TypedArrayAttrBase<StrArrayAttr, "map from tensor dimensions to axes">;

class Block_Op<string mnemonic, list<Trait> traits = []> : Op<Block_Dialect, mnemonic, traits>;

/// An op without side effects that computes one tile, and its properties
/// (`TileOpInterface`, in C++).
class Block_TileOp<string mnemonic, list<Trait> traits, string isElementwise, string work,
                   string resultDim, string isZeroAtZero>
    : Block_Op<mnemonic, !listconcat([Pure, Block_TileOpInterface], traits)> {
  let results = (outs Block_TileType:$result);
  let hasVerifier = 1;
  string extraDeclaration = "bool isElementwise() { return " # isElementwise # "; }\n"
      # "int64_t getElementWork() { return " # work # "; }\n"
      # "::std::optional<unsigned> getResultDim(unsigned operand, unsigned dim) { return "
      # resultDim # "; }\n"
      # "bool isZeroAtZero() { return " # isZeroAtZero # "; }\n";
  let extraClassDeclaration = extraDeclaration;
}

/// A tile op that computes each element from the operands' elements at the same index.
class Block_ElementwiseOp<string mnemonic, string work, string isZeroAtZero,
                          list<Trait> traits = []>
    : Block_TileOp<mnemonic, traits, "true", work,
                   "getAlignedDim(getOperation(), operand, dim)", isZeroAtZero>;

/// A tile op whose elements come from other indices: `resultDim` says where dimensions go.
class Block_OtherTileOp<string mnemonic, string resultDim, string isZeroAtZero,
                        list<Trait> traits = []>
    : Block_TileOp<mnemonic, traits, "false", "0", resultDim, isZeroAtZero>;

#endif // MIRAGE_DIALECT_BLOCK_IR_BLOCKOPBASE_TD
