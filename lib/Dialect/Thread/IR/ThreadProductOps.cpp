//===- ThreadProductOps.cpp - verifiers of products in tensor cores -------===//

#include "mirage/Dialect/Common/ElementTypes.h"
#include "mirage/Dialect/Thread/IR/MmaPlan.h"
#include "mirage/Dialect/Thread/IR/Thread.h"
#include "mirage/Target/WarpSharing.h"

using namespace mlir;
using namespace mirage::thread;

LogicalResult MmaOp::verify() {
  std::string message;
  if (failed(planMma(getLhs().getType(), getRhs().getType(), getAcc().getType(), message)))
    return emitOpError(message);
  if (getTf32() && !getLhs().getType().getElementType().isF32())
    return emitOpError("expected factors of f32 to be rounded to TF32, got ")
           << getLhs().getType().getElementType();
  return success();
}

int64_t WgmmaOp::getDepth() { return mirage::wgmmaBytes / getRhs().getType().getElementBytes(); }

LogicalResult WgmmaOp::verify() {
  FragmentType acc = getAcc().getType();
  SharedType rhs = getRhs().getType();
  if (!acc.getElementType().isF32() || acc.getPartial())
    return emitOpError("expected an accumulator of f32 that is not partial, got ") << acc;
  int64_t rhsK = getRhsTransposed() ? rhs.getCols() : rhs.getRows();
  int64_t n = getRhsTransposed() ? rhs.getRows() : rhs.getCols();
  int64_t m, k;
  Type element;
  if (auto tile = dyn_cast<SharedType>(getLhs().getType())) {
    m = getLhsTransposed() ? tile.getCols() : tile.getRows();
    k = getLhsTransposed() ? tile.getRows() : tile.getCols();
    element = tile.getElementType();
    if (tile.isRing() || tile.getSwizzle() == 0)
      return emitOpError("expected a swizzled tile as lhs, got ") << tile;
  } else {
    auto fragment = cast<FragmentType>(getLhs().getType());
    m = fragment.getRows(), k = fragment.getCols();
    element = fragment.getElementType();
    if (getLhsTransposed())
      return emitOpError("expected an lhs in shared memory to be transposed");
  }
  if (rhs.isRing() || rhs.getSwizzle() == 0)
    return emitOpError("expected a swizzled tile as rhs, got ") << rhs;
  bool eightBits =
      mirage::isEightBitFloat(element) && mirage::isEightBitFloat(rhs.getElementType());
  if (!eightBits && (element != rhs.getElementType() ||
                     !(element.isF16() || element.isBF16() || element.isF32())))
    return emitOpError("expected factors of the same element type, f16, bf16 or f32, or of 8 bits, "
                       "got ")
           << element << " and " << rhs.getElementType();
  if ((eightBits || element.isF32()) &&
      (!isa<SharedType>(getLhs().getType()) || getLhsTransposed() || !getRhsTransposed()))
    return emitOpError("expected factors of 8 or 32 bits in shared memory whose rows run along K");
  if (getPromoted() && (!eightBits || getFromZero()))
    return emitOpError("expected factors of 8 bits that are added to a sum to be promoted");
  if (m != acc.getRows() || n != acc.getCols() || k != rhsK)
    return emitOpError("shapes do not fit: ") << m << "x" << k << " times " << rhsK << "x" << n
                                              << " into " << acc.getRows() << "x" << acc.getCols();
  if (int64_t depth = getDepth(); k % depth)
    return emitOpError("expected K of a multiple of ") << depth << ", got " << k;
  const LinearLayout &layout = acc.getLinearLayout();
  if (layout.getWarp().size() < 2 || layout.getWarp()[0] != Coord{16, 0} ||
      layout.getWarp()[1] != Coord{32, 0} || m % 64)
    return emitOpError("expected an accumulator of layout wgmmaResultLayout, got <")
           << layout.str() << ">";
  return success();
}
