//===- BlockDialect.cpp - the block dialect, its types and attributes -----===//

#include "mirage/Dialect/Block/IR/Block.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mirage::block;

/// `16x64xf16` or, for rank 0, `f32`.
static ParseResult parseTileShape(AsmParser &parser, SmallVector<int64_t> &shape,
                                  Type &elementType) {
  if (parser.parseDimensionList(shape, /*allowDynamic=*/false, /*withTrailingX=*/true))
    return failure();
  return parser.parseType(elementType);
}

static void printTileShape(AsmPrinter &printer, ArrayRef<int64_t> shape, Type elementType) {
  for (int64_t size : shape)
    printer << size << 'x';
  printer << elementType;
}

#include "mirage/Dialect/Block/IR/BlockDialect.cpp.inc"
#include "mirage/Dialect/Block/IR/BlockEnums.cpp.inc"
#include "mirage/Dialect/Block/IR/BlockOpInterfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "mirage/Dialect/Block/IR/BlockAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "mirage/Dialect/Block/IR/BlockTypes.cpp.inc"

void BlockDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "mirage/Dialect/Block/IR/BlockAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "mirage/Dialect/Block/IR/BlockTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "mirage/Dialect/Block/IR/BlockOps.cpp.inc"
      >();
}

LogicalResult TileType::verify(function_ref<InFlightDiagnostic()> emitError,
                               ArrayRef<int64_t> shape, Type elementType, Attribute) {
  for (int64_t size : shape)
    if (size < 1)
      return emitError() << "expected tile sizes of at least 1, got " << size;
  if (!isa<Float16Type, BFloat16Type, Float32Type, Float64Type>(elementType) &&
      !elementType.isInteger(64))
    return emitError() << "expected an element type of f16, bf16, f32, f64 or i64, got "
                       << elementType;
  return success();
}

int64_t TileType::getNumElements() const {
  int64_t count = 1;
  for (int64_t size : getShape())
    count *= size;
  return count;
}

int64_t TileType::getSizeInBytes() const {
  return getNumElements() * (getElementType().getIntOrFloatBitWidth() / 8);
}
