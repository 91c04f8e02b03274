//===- ThreadSharedOps.cpp - verifiers of ops on tiles in shared memory ---===//

#include "Verifiers.h"

#include "mirage/Dialect/Thread/IR/Thread.h"

using namespace mlir;
using namespace mirage::thread;

LogicalResult mirage::thread::verifySlot(Operation *op, SharedType type) {
  if (type.isRing())
    return op->emitOpError() << "expected one tile, got a ring; select with thread.slot";
  return success();
}

LogicalResult SharedAllocOp::verify() {
  if (getOffset() % getType().getAlignment())
    return emitOpError("expected an offset of a multiple of ")
           << getType().getAlignment() << " bytes, got " << getOffset();
  return success();
}

LogicalResult MbarrierAllocOp::verify() {
  if (getOffset() % 8)
    return emitOpError("expected an offset of a multiple of 8 bytes, got ") << getOffset();
  return success();
}

LogicalResult SlotOp::inferReturnTypes(MLIRContext *, std::optional<Location>, Adaptor adaptor,
                                       SmallVectorImpl<Type> &types) {
  auto ring = dyn_cast<SharedType>(adaptor.getRing().getType());
  if (!ring)
    return failure();
  types.push_back(ring.getSlotType());
  return success();
}

LogicalResult SlotOp::verify() {
  if (!getRing().getType().isRing())
    return emitOpError("expected a ring (a shared type of 3 dimensions), got ")
           << getRing().getType();
  return success();
}

/// Whether loads of a tile make the numbers of a fragment from narrower elements.
static bool isWidened(Type element, Type fragment) {
  bool isNumber = fragment.isF16() || fragment.isF32();
  return isNumber && element.getIntOrFloatBitWidth() == 8;
}

static LogicalResult verifyShared(Operation *op, SharedType tile, FragmentType fragment,
                                  std::optional<ArrayRef<int64_t>> at, bool transposed) {
  if (failed(verifySlot(op, tile)) || failed(verifyNotPartial(op, fragment, "the fragment")))
    return failure();
  Type element = tile.getElementType(), wanted = fragment.getElementType();
  if (element != wanted && !(isa<LoadSharedOp>(op) && isWidened(element, wanted)))
    return op->emitOpError() << "expected a fragment of the tile's element type "
                             << tile.getElementType() << ", got " << fragment.getElementType();
  if (at && at->size() != 2)
    return op->emitOpError() << "expected a row and a column in 'at', got " << at->size()
                             << " numbers";
  int64_t rows = fragment.getRows(), cols = fragment.getCols();
  if (transposed)
    std::swap(rows, cols);
  int64_t row = at ? (*at)[0] : 0, col = at ? (*at)[1] : 0;
  if (row < 0 || col < 0 || row + rows > tile.getRows() || col + cols > tile.getCols())
    return op->emitOpError() << "expected a part of the " << tile.getRows() << "x" << tile.getCols()
                             << " tile, got " << rows << "x" << cols << " at [" << row << ", "
                             << col << "]";
  return success();
}

LogicalResult LoadSharedOp::verify() {
  return verifyShared(*this, getSource().getType(), getType(), getAt(), getTransposed());
}

LogicalResult StoreSharedOp::verify() {
  return verifyShared(*this, getDest().getType(), getValue().getType(), getAt(), getTransposed());
}

LogicalResult LoadRemoteOp::verify() {
  return verifyShared(*this, getSource().getType(), getType(), std::nullopt, false);
}

LogicalResult StoreRemoteOp::verify() {
  return verifyShared(*this, getDest().getType(), getValue().getType(), std::nullopt, false);
}
