//===- Assembly.cpp - custom assembly shared by all dialects --------------===//

#include "mirage/Dialect/Common/Assembly.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace mlir;

namespace {

ParseResult parseAxisName(OpAsmParser &parser, StringAttr &name) {
  std::string keyword;
  if (parser.parseKeywordOrString(&keyword))
    return failure();
  name = parser.getBuilder().getStringAttr(keyword);
  return success();
}

void printAxisName(OpAsmPrinter &printer, Attribute name) {
  printer.printKeywordOrString(cast<StringAttr>(name).getValue());
}

} // namespace

ParseResult mirage::parseAxes(OpAsmParser &parser, ArrayAttr &names, DenseI64ArrayAttr &extents) {
  SmallVector<Attribute> nameList;
  SmallVector<int64_t> extentList;
  auto parseOne = [&]() -> ParseResult {
    StringAttr name;
    int64_t extent;
    if (parseAxisName(parser, name) || parser.parseEqual() || parser.parseInteger(extent))
      return failure();
    nameList.push_back(name);
    extentList.push_back(extent);
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne))
    return failure();
  names = parser.getBuilder().getArrayAttr(nameList);
  extents = parser.getBuilder().getDenseI64ArrayAttr(extentList);
  return success();
}

void mirage::printAxes(OpAsmPrinter &printer, Operation *, ArrayAttr names,
                       DenseI64ArrayAttr extents) {
  printer << '[';
  llvm::interleaveComma(llvm::zip(names, extents.asArrayRef()), printer, [&](auto pair) {
    printAxisName(printer, std::get<0>(pair));
    printer << " = " << std::get<1>(pair);
  });
  printer << ']';
}

ParseResult mirage::parseAxis(OpAsmParser &parser, StringAttr &name, IntegerAttr &extent) {
  int64_t value;
  if (parser.parseLSquare() || parseAxisName(parser, name) || parser.parseEqual() ||
      parser.parseInteger(value) || parser.parseRSquare())
    return failure();
  extent = parser.getBuilder().getI64IntegerAttr(value);
  return success();
}

void mirage::printAxis(OpAsmPrinter &printer, Operation *, StringAttr name, IntegerAttr extent) {
  printer << '[';
  printAxisName(printer, name);
  printer << " = " << extent.getInt() << ']';
}

ParseResult mirage::parseAxisNames(OpAsmParser &parser, ArrayAttr &names) {
  SmallVector<Attribute> list;
  auto parseOne = [&]() -> ParseResult {
    StringAttr name;
    if (parseAxisName(parser, name))
      return failure();
    list.push_back(name);
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne))
    return failure();
  names = parser.getBuilder().getArrayAttr(list);
  return success();
}

void mirage::printAxisNames(OpAsmPrinter &printer, Operation *, ArrayAttr names) {
  printer << '[';
  llvm::interleaveComma(names, printer, [&](Attribute name) { printAxisName(printer, name); });
  printer << ']';
}

ParseResult mirage::parseMap(OpAsmParser &parser, ArrayAttr &map) {
  SmallVector<Attribute> dims;
  auto parseOne = [&]() -> ParseResult {
    ArrayAttr names;
    if (parseAxisNames(parser, names))
      return failure();
    dims.push_back(names);
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne))
    return failure();
  map = parser.getBuilder().getArrayAttr(dims);
  return success();
}

void mirage::printMap(OpAsmPrinter &printer, Operation *op, ArrayAttr map) {
  printer << '[';
  llvm::interleaveComma(
      map, printer, [&](Attribute names) { printAxisNames(printer, op, cast<ArrayAttr>(names)); });
  printer << ']';
}

ParseResult mirage::parseFloat(OpAsmParser &parser, FloatAttr &value) {
  double number;
  bool negative = succeeded(parser.parseOptionalMinus());
  if (succeeded(parser.parseOptionalKeyword("inf")))
    number = HUGE_VAL;
  else if (succeeded(parser.parseOptionalKeyword("nan")))
    number = std::nan("");
  else if (parser.parseFloat(number))
    return failure();
  value = parser.getBuilder().getF64FloatAttr(negative ? -number : number);
  return success();
}

void mirage::printFloat(OpAsmPrinter &printer, Operation *, FloatAttr value) {
  double number = value.getValueAsDouble();
  if (std::isnan(number))
    printer << "nan";
  else if (std::isinf(number))
    printer << (number < 0 ? "-inf" : "inf");
  else {
    // 17 significant digits reproduce any double exactly; fewer are written if they do, too.
    std::string text;
    for (int digits : {6, 9, 16}) {
      char buffer[40];
      snprintf(buffer, sizeof(buffer), "%.*e", digits, number);
      text = buffer;
      if (std::strtod(buffer, nullptr) == number)
        break;
    }
    printer << text;
  }
}
