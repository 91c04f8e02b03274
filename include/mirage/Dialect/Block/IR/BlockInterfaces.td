//===- BlockInterfaces.td - interfaces of block ops ------------*- tablegen -*-===//

#ifndef MIRAGE_DIALECT_BLOCK_IR_BLOCKINTERFACES_TD
#define MIRAGE_DIALECT_BLOCK_IR_BLOCKINTERFACES_TD

include "mlir/IR/OpBase.td"

def Block_TileOpInterface : OpInterface<"TileOpInterface"> {
  let cppNamespace = "::mirage::block";
  let description = [{
    What analyses of tiles need to know of an op that computes one. No method has
    a default: an op that does not say what it is does not compile. `Block_ElementwiseOp`
    and `Block_OtherTileOp` answer for ops that have nothing special.
  }];
  let methods = [
    InterfaceMethod<[{
      Whether each element of the result is a function of the operands' elements at
      its index, dimensions of size 1 being repeated.
    }], "bool", "isElementwise">,
    InterfaceMethod<[{
      Instructions for an element of the result, to rank layouts; 0 where the op
      computes nothing.
    }], "int64_t", "getElementWork">,
    InterfaceMethod<[{
      The dimension of the result that dimension `dim` of the operand runs along,
      nullopt where there is none (it is contracted).
    }], "::std::optional<unsigned>", "getResultDim", (ins "unsigned":$operand, "unsigned":$dim)>,
    InterfaceMethod<[{
      Whether an element of the result is zero where those of all operands are, so
      that padding with zeros passes through.
    }], "bool", "isZeroAtZero">];
}

#endif // MIRAGE_DIALECT_BLOCK_IR_BLOCKINTERFACES_TD
