//===- ThreadTypes.cpp - types of the thread dialect ----------------------===//

#include "mirage/Dialect/Common/ElementTypes.h"
#include "mirage/Dialect/Thread/IR/Thread.h"
#include "mirage/Target/Staging.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mirage::thread;

#define GET_TYPEDEF_CLASSES
#include "mirage/Dialect/Thread/IR/ThreadTypes.cpp.inc"

void ThreadDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "mirage/Dialect/Thread/IR/ThreadTypes.cpp.inc"
      >();
}

static bool isTileElement(Type type) {
  return type.isF16() || type.isBF16() || type.isF32() || type.isInteger(32);
}

static LogicalResult verifyElement(function_ref<InFlightDiagnostic()> emitError, Type type) {
  if (!isTileElement(type) && !type.isInteger(64))
    return emitError() << "expected elements of type f16, bf16, f32, i32 or i64, got " << type;
  return success();
}

/// Tiles in shared memory may also have elements that become wider numbers in registers, or that
/// only products read.
static LogicalResult verifySharedElement(function_ref<InFlightDiagnostic()> emitError, Type type) {
  if (!isTileElement(type) && !type.isInteger(64) && !type.isInteger(8) &&
      !mirage::isEightBitFloat(type))
    return emitError()
           << "expected elements of type f16, bf16, f32, i8, i32, i64, f8E4M3FN or f8E5M2, got "
           << type;
  return success();
}

static void printShape(AsmPrinter &printer, ArrayRef<int64_t> shape, Type elementType) {
  for (int64_t extent : shape)
    printer << extent << "x";
  printer << elementType;
}

static ParseResult parseShape(AsmParser &parser, SmallVectorImpl<int64_t> &shape,
                              Type &elementType) {
  return failure(parser.parseDimensionList(shape, /*allowDynamic=*/false) ||
                 parser.parseType(elementType));
}

//===----------------------------------------------------------------------===//
// Fragment
//===----------------------------------------------------------------------===//

FragmentType FragmentType::get(ArrayRef<int64_t> shape, Type elementType,
                               const LinearLayout &layout, bool partial) {
  MLIRContext *context = elementType.getContext();
  return Base::get(context, shape, elementType, LayoutAttr::get(context, layout), partial);
}

FragmentType FragmentType::get(Type elementType, const LinearLayout &layout, bool partial) {
  return get({layout.getExtent(0), layout.getExtent(1)}, elementType, layout, partial);
}

const LinearLayout &FragmentType::getLinearLayout() const { return getLayout().getValue(); }
int64_t FragmentType::getNumRegisters() const { return getLinearLayout().getNumRegisters(); }

FragmentType FragmentType::withElementType(Type elementType) const {
  return get(getShape(), elementType, getLinearLayout(), getPartial());
}
FragmentType FragmentType::withPartial(bool partial) const {
  return get(getShape(), getElementType(), getLinearLayout(), partial);
}
FragmentType FragmentType::withLayout(const LinearLayout &layout) const {
  return get(getElementType(), layout, getPartial());
}

Type FragmentType::parse(AsmParser &parser) {
  SMLoc loc = parser.getCurrentLocation();
  SmallVector<int64_t> shape;
  Type elementType;
  LayoutAttr layout;
  bool partial = false;
  if (parser.parseLess() || parseShape(parser, shape, elementType) || parser.parseComma() ||
      parser.parseAttribute(layout))
    return {};
  if (succeeded(parser.parseOptionalComma())) {
    if (parser.parseKeyword("partial"))
      return {};
    partial = true;
  }
  if (parser.parseGreater())
    return {};
  return parser.getChecked<FragmentType>(loc, parser.getContext(), shape, elementType, layout,
                                         partial);
}

void FragmentType::print(AsmPrinter &printer) const {
  printer << "<";
  printShape(printer, getShape(), getElementType());
  printer << ", " << getLayout() << (getPartial() ? ", partial>" : ">");
}

LogicalResult FragmentType::verify(function_ref<InFlightDiagnostic()> emitError,
                                   ArrayRef<int64_t> shape, Type elementType, LayoutAttr layout,
                                   bool partial) {
  if (failed(verifyElement(emitError, elementType)))
    return failure();
  if (shape.size() != 2)
    return emitError() << "expected a fragment of 2 dimensions, got " << shape.size();
  const LinearLayout &map = layout.getValue();
  if (shape[0] != map.getExtent(0) || shape[1] != map.getExtent(1))
    return emitError() << "expected a layout of " << shape[0] << "x" << shape[1]
                       << " elements, got one of " << map.getExtent(0) << "x" << map.getExtent(1);
  if (partial && llvm::none_of(map.getWarp(), [](Coord vector) { return vector.isZero(); }))
    return emitError() << "expected a zero warp vector in the layout of a partial fragment, got "
                       << map.str();
  return success();
}

//===----------------------------------------------------------------------===//
// Shared
//===----------------------------------------------------------------------===//

SharedType SharedType::get(ArrayRef<int64_t> shape, Type elementType, int64_t swizzle,
                           int64_t pad) {
  return Base::get(elementType.getContext(), shape, elementType, swizzle, pad);
}

int64_t SharedType::getElementBytes() const { return getElementType().getIntOrFloatBitWidth() / 8; }

int64_t SharedType::getRowPitch() const {
  return getSwizzle() ? getSwizzle() : (getCols() + getPad()) * getElementBytes();
}

int64_t SharedType::getAlignment() const {
  return mirage::getSharedAlignment(getSwizzle(), startsAtOddElements());
}

int64_t SharedType::getSlotBytes() const {
  int64_t bytes =
      getSwizzle() ? getRows() * getCols() * getElementBytes() : getRows() * getRowPitch();
  return llvm::alignTo(bytes, getAlignment());
}

int64_t SharedType::getByteOffset(int64_t row, int64_t col) const {
  int64_t byte = col * getElementBytes();
  int64_t swizzleBytes = getSwizzle();
  if (!swizzleBytes)
    return row * getRowPitch() + byte;
  int64_t panel = byte / swizzleBytes, inPanel = byte % swizzleBytes;
  int64_t key = (row * swizzleBytes / 128) % (swizzleBytes / 16);
  return (panel * getRows() + row) * swizzleBytes + (inPanel ^ (key * 16));
}

SharedType SharedType::getSlotType() const {
  return get(getShape().take_back(2), getElementType(), getSwizzle(), getPad());
}

/// `, name = value` pairs up to the closing bracket.
static ParseResult parseFields(AsmParser &parser,
                               ArrayRef<std::pair<StringRef, int64_t *>> fields) {
  while (succeeded(parser.parseOptionalComma())) {
    StringRef name;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&name))
      return failure();
    auto *field = llvm::find_if(fields, [&](auto &entry) { return entry.first == name; });
    if (field == fields.end())
      return parser.emitError(loc) << "unknown field '" << name << "'";
    if (parser.parseEqual() || parser.parseInteger(*field->second))
      return failure();
  }
  return parser.parseGreater();
}

Type SharedType::parse(AsmParser &parser) {
  SMLoc loc = parser.getCurrentLocation();
  SmallVector<int64_t> shape;
  Type elementType;
  int64_t swizzle = 0, pad = 0;
  if (parser.parseLess() || parseShape(parser, shape, elementType) ||
      parseFields(parser, {{"swizzle", &swizzle}, {"pad", &pad}}))
    return {};
  return parser.getChecked<SharedType>(loc, parser.getContext(), shape, elementType, swizzle, pad);
}

void SharedType::print(AsmPrinter &printer) const {
  printer << "<";
  printShape(printer, getShape(), getElementType());
  if (getSwizzle())
    printer << ", swizzle = " << getSwizzle();
  if (getPad())
    printer << ", pad = " << getPad();
  printer << ">";
}

LogicalResult SharedType::verify(function_ref<InFlightDiagnostic()> emitError,
                                 ArrayRef<int64_t> shape, Type elementType, int64_t swizzle,
                                 int64_t pad) {
  if (failed(verifySharedElement(emitError, elementType)))
    return failure();
  if (shape.size() != 2 && shape.size() != 3)
    return emitError() << "expected a shared tile of 2 dimensions or a ring of 3, got "
                       << shape.size();
  if (llvm::any_of(shape, [](int64_t extent) { return extent < 1; }))
    return emitError() << "expected positive extents";
  if (!llvm::is_contained({0, 32, 64, 128}, swizzle))
    return emitError() << "expected a swizzle of 0, 32, 64 or 128 bytes, got " << swizzle;
  if (pad < 0 || (swizzle && pad))
    return emitError() << "expected a pad of at least 0, and 0 with a swizzle, got " << pad;
  int64_t rowBytes = shape.back() * elementType.getIntOrFloatBitWidth() / 8;
  if (swizzle && rowBytes % swizzle)
    return emitError() << "expected rows of a multiple of " << swizzle << " bytes, got "
                       << rowBytes;
  return success();
}

//===----------------------------------------------------------------------===//
// Mbarrier and tensor map
//===----------------------------------------------------------------------===//

LogicalResult MbarrierType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t count) {
  if (count < 1)
    return emitError() << "expected at least 1 mbarrier, got " << count;
  return success();
}

int64_t RingType::getTileBytes(int64_t number) const {
  SharedType tile = getTiles()[number];
  return tile.getRows() * tile.getCols() * tile.getElementBytes();
}

int64_t RingType::getStepBytes() const {
  int64_t bytes = 0;
  for (size_t number = 0; number < getTiles().size(); ++number)
    bytes += getTileBytes(int64_t(number));
  return bytes;
}

LogicalResult RingType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t slots,
                               ArrayRef<SharedType> tiles) {
  if (slots < 1)
    return emitError() << "expected at least 1 slot, got " << slots;
  if (tiles.empty())
    return emitError() << "expected at least 1 tile in a slot, got none";
  for (SharedType tile : tiles)
    if (tile.isRing() || tile.getPad())
      return emitError() << "expected tiles of 2 dimensions without pad, got " << tile;
  return success();
}

Type TensorMapType::parse(AsmParser &parser) {
  SMLoc loc = parser.getCurrentLocation();
  SmallVector<int64_t> box;
  Type elementType;
  int64_t swizzle = 0;
  if (parser.parseLess() || parseShape(parser, box, elementType) ||
      parseFields(parser, {{"swizzle", &swizzle}}))
    return {};
  return parser.getChecked<TensorMapType>(loc, parser.getContext(), box, elementType, swizzle);
}

void TensorMapType::print(AsmPrinter &printer) const {
  printer << "<";
  printShape(printer, getBox(), getElementType());
  if (getSwizzle())
    printer << ", swizzle = " << getSwizzle();
  printer << ">";
}

LogicalResult TensorMapType::verify(function_ref<InFlightDiagnostic()> emitError,
                                    ArrayRef<int64_t> box, Type elementType, int64_t swizzle) {
  if (failed(verifySharedElement(emitError, elementType)))
    return failure();
  if (box.empty() || box.size() > 5)
    return emitError() << "expected a box of 1 to 5 dimensions, got " << box.size();
  for (int64_t extent : box)
    if (extent < 1 || extent > 256)
      return emitError() << "expected box extents from 1 to 256, got " << extent;
  if (!llvm::is_contained({0, 32, 64, 128}, swizzle))
    return emitError() << "expected a swizzle of 0, 32, 64 or 128 bytes, got " << swizzle;
  int64_t rowBytes = box.back() * elementType.getIntOrFloatBitWidth() / 8;
  if (rowBytes % 16)
    return emitError() << "expected rows of a multiple of 16 bytes, got " << rowBytes;
  if (swizzle && rowBytes > swizzle)
    return emitError() << "expected rows of at most " << swizzle << " bytes, got " << rowBytes;
  return success();
}
