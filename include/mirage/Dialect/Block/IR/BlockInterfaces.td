//===- BlockInterfaces.td - interfaces of block ops ------------*- tablegen -*-===//

#ifndef MIRAGE_DIALECT_BLOCK_IR_BLOCKINTERFACES_TD
#define MIRAGE_DIALECT_BLOCK_IR_BLOCKINTERFACES_TD

include "mlir/IR/OpBase.td"

def Block_TileOpInterface : OpInterface<"TileOpInterface"> {
  let cppNamespace = "::mirage::block";
  let description = [{
    The facts about an op that computes a tile, for analyses of tiles. No method has a default: an
    op that does not define all of them does not compile. `Block_ElementwiseOp` and
    `Block_OtherTileOp` define them for the common cases.
  }];
  let methods = [
    InterfaceMethod<[{
      Whether each element of the result is a function of the operands' elements at
      the same index, where dimensions of size 1 are repeated.
    }], "bool", "isElementwise">,
    InterfaceMethod<[{
      The number of instructions for an element of the result, by which layouts are
      ranked; 0 if the op computes nothing.
    }], "int64_t", "getElementWork">,
    InterfaceMethod<[{
      The dimension of the result that corresponds to dimension `dim` of the operand;
      nullopt if there is none because it is contracted.
    }], "::std::optional<unsigned>", "getResultDim", (ins "unsigned":$operand, "unsigned":$dim)>,
    InterfaceMethod<[{
      Whether an element of the result is zero wherever the elements of all operands
      are, so that padding with zeros passes through.
    }], "bool", "isZeroAtZero">];
}

#endif // MIRAGE_DIALECT_BLOCK_IR_BLOCKINTERFACES_TD
