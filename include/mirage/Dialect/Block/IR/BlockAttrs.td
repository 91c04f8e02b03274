//===- BlockAttrs.td - attributes of the block dialect ---------*- tablegen -*-===//

#ifndef MIRAGE_DIALECT_BLOCK_IR_BLOCKATTRS_TD
#define MIRAGE_DIALECT_BLOCK_IR_BLOCKATTRS_TD

include "mirage/Dialect/Block/IR/BlockDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

class Block_Attr<string name, string attrMnemonic> : AttrDef<Block_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def Block_AccumulateFn : I32EnumAttr<"AccumulateFn", "how a loop combines the values of its steps", [
    I32EnumAttrCase<"Sum", 0, "sum">,
    I32EnumAttrCase<"Max", 1, "max">,
    I32EnumAttrCase<"Last", 2, "last">]> {
  let cppNamespace = "::mirage::block";
  let genSpecializedAttr = 0;
}

def Block_ExtremeFn : I32EnumAttr<"ExtremeFn", "which of several numbers", [
    I32EnumAttrCase<"Max", 0, "max">,
    I32EnumAttrCase<"Min", 1, "min">]> {
  let cppNamespace = "::mirage::block";
}

def Block_AccumulateFnAttr : EnumAttr<Block_Dialect, Block_AccumulateFn, "accumulate_fn"> {
  let summary = "how a loop combines the values of its steps";
  let assemblyFormat = "`<` $value `>`";
}

#endif // MIRAGE_DIALECT_BLOCK_IR_BLOCKATTRS_TD
