//===- BlockAssembly.cpp - custom assembly of block.store and accumulate --===//

#include "BlockAssembly.h"

#include "mirage/Dialect/Common/Assembly.h"

using namespace mlir;
using namespace mirage;
using namespace mirage::block;

using Operands = SmallVectorImpl<OpAsmParser::UnresolvedOperand>;

ParseResult mirage::block::parseStores(OpAsmParser &parser, Operands &tiles, ArrayAttr &maps) {
  SmallVector<Attribute> list;
  OpAsmParser::UnresolvedOperand tile;
  OptionalParseResult first = parser.parseOptionalOperand(tile);
  if (first.has_value()) {
    if (failed(*first))
      return failure();
    while (true) {
      ArrayAttr map;
      if (parseMap(parser, map))
        return failure();
      tiles.push_back(tile);
      list.push_back(map);
      if (failed(parser.parseOptionalComma()))
        break;
      if (parser.parseOperand(tile))
        return failure();
    }
  }
  maps = parser.getBuilder().getArrayAttr(list);
  return success();
}

void mirage::block::printStores(OpAsmPrinter &printer, Operation *op, OperandRange tiles,
                                ArrayAttr maps) {
  llvm::interleaveComma(llvm::zip(tiles, maps), printer, [&](auto pair) {
    printer << std::get<0>(pair) << ' ';
    printMap(printer, op, cast<ArrayAttr>(std::get<1>(pair)));
  });
}

ParseResult mirage::block::parseAccumulators(OpAsmParser &parser, ArrayAttr &fns, Operands &values,
                                             Operands &rescales, DenseI64ArrayAttr &rescaled,
                                             SmallVectorImpl<Type> &valueTypes,
                                             SmallVectorImpl<Type> &rescaleTypes) {
  SmallVector<Attribute> fnList;
  SmallVector<int64_t> rescaledList;
  MLIRContext *context = parser.getContext();
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  if (succeeded(parser.parseOptionalKeyword(&keyword))) {
    while (true) {
      auto fn = symbolizeAccumulateFn(keyword);
      if (!fn)
        return parser.emitError(loc, "expected sum, max or last, got '") << keyword << "'";
      OpAsmParser::UnresolvedOperand value;
      if (parser.parseOperand(value))
        return failure();
      if (succeeded(parser.parseOptionalKeyword("rescale"))) {
        OpAsmParser::UnresolvedOperand rescale;
        if (parser.parseOperand(rescale))
          return failure();
        rescales.push_back(rescale);
        rescaledList.push_back(values.size());
      }
      values.push_back(value);
      fnList.push_back(AccumulateFnAttr::get(context, *fn));
      if (failed(parser.parseOptionalComma()))
        break;
      loc = parser.getCurrentLocation();
      if (parser.parseKeyword(&keyword))
        return failure();
    }
    if (parser.parseColonTypeList(valueTypes))
      return failure();
  }
  if (valueTypes.size() != values.size())
    return parser.emitError(parser.getCurrentLocation(), "expected ")
           << values.size() << " types, got " << valueTypes.size();
  if (!rescales.empty() &&
      (parser.parseKeyword("rescale") || parser.parseColonTypeList(rescaleTypes)))
    return failure();
  fns = parser.getBuilder().getArrayAttr(fnList);
  rescaled = parser.getBuilder().getDenseI64ArrayAttr(rescaledList);
  return success();
}

void mirage::block::printAccumulators(OpAsmPrinter &printer, Operation *op, ArrayAttr fns,
                                      OperandRange values, OperandRange rescales, DenseI64ArrayAttr,
                                      TypeRange valueTypes, TypeRange rescaleTypes) {
  if (values.empty())
    return;
  auto accumulate = cast<AccumulateOp>(op);
  llvm::interleaveComma(llvm::seq<int64_t>(0, values.size()), printer, [&](int64_t i) {
    printer << stringifyAccumulateFn(cast<AccumulateFnAttr>(fns[i]).getValue()) << ' ' << values[i];
    if (Value rescale = accumulate.getRescale(i))
      printer << " rescale " << rescale;
  });
  printer << " : " << valueTypes;
  if (!rescales.empty())
    printer << " rescale : " << rescaleTypes;
}
