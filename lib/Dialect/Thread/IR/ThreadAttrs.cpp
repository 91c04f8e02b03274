//===- ThreadAttrs.cpp - attributes of the thread dialect -----------------===//

#include "mirage/Dialect/Thread/IR/Thread.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mirage::thread;

#define GET_ATTRDEF_CLASSES
#include "mirage/Dialect/Thread/IR/ThreadAttrs.cpp.inc"

void ThreadDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "mirage/Dialect/Thread/IR/ThreadAttrs.cpp.inc"
      >();
}

static ParseResult parseVector(AsmParser &parser, Coord &vector) {
  return failure(parser.parseLSquare() || parser.parseInteger(vector.row) || parser.parseComma() ||
                 parser.parseInteger(vector.col) || parser.parseRSquare());
}

static ParseResult parseBasis(AsmParser &parser, LinearLayout::Basis &basis) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                        [&] { return parseVector(parser, basis.emplace_back()); });
}

Attribute LayoutAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  LinearLayout::Basis reg, lane, warp;
  Coord repeat{1, 1};
  auto parseField = [&]() -> ParseResult {
    StringRef name;
    SMLoc nameLoc = parser.getCurrentLocation();
    if (parser.parseKeyword(&name) || parser.parseEqual())
      return failure();
    if (name == "reg")
      return parseBasis(parser, reg);
    if (name == "lane")
      return parseBasis(parser, lane);
    if (name == "warp")
      return parseBasis(parser, warp);
    if (name == "repeat")
      return parseVector(parser, repeat);
    return parser.emitError(nameLoc)
           << "expected 'reg', 'lane', 'warp' or 'repeat', got '" << name << "'";
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, parseField))
    return {};
  return parser.getChecked<LayoutAttr>(loc, parser.getContext(),
                                       LinearLayout(reg, lane, warp, {repeat.row, repeat.col}));
}

void LayoutAttr::print(AsmPrinter &printer) const {
  printer << "<";
  getValue().print(printer.getStream());
  printer << ">";
}

LogicalResult LayoutAttr::verify(function_ref<InFlightDiagnostic()> emitError, LinearLayout value) {
  if (std::string message = value.check(); !message.empty())
    return emitError() << "invalid layout: " << message;
  return success();
}
