//===- ThreadRoleOps.cpp - verifiers of roles, and of groups of their warps -===//

#include "Verifiers.h"

#include "mirage/Dialect/Thread/IR/Thread.h"

using namespace mlir;
using namespace mirage::thread;

LogicalResult WarpsOp::verify() {
  if (getBarrier() < 1 || getBarrier() > 3)
    return emitOpError("expected a barrier from 1 to 3, got ") << getBarrier();
  if ((*this)->getParentOfType<WarpsOp>())
    return emitOpError("expected no thread.warps around it");
  if (std::optional<int64_t> warps = getNumWarps(*this);
      warps && int64_t(getFirst() + getCount()) > *warps)
    return emitOpError("expected at most ")
           << *warps << " warps, got warps " << getFirst() << " to " << getFirst() + getCount() - 1;
  return success();
}

LogicalResult WarpsOp::verifyRegions() {
  LogicalResult result = success();
  getBody().walk([&](Operation *op) {
    for (Value operand : op->getOperands())
      if (isa<FragmentType>(operand.getType()) &&
          !getBody().isAncestor(operand.getParentRegion())) {
        result = op->emitOpError("uses a fragment from outside of thread.warps, where the warps "
                                 "have other numbers");
        return WalkResult::interrupt();
      }
    return WalkResult::advance();
  });
  return result;
}

FailureOr<int64_t> mirage::thread::getGroups(Operation *op) {
  auto role = op->getParentOfType<WarpsOp>();
  if (!role || role.getCount() % 4 || role.getCount() > 16) {
    op->emitOpError("expected thread.warps of 4, 8, 12 or 16 warps around it, got ")
        << (role ? std::to_string(role.getCount()) : std::string("none"));
    return failure();
  }
  return role.getCount() / 4;
}

LogicalResult BarrierOp::verify() { return success(!getGroup() || succeeded(getGroups(*this))); }

LogicalResult GroupRowsOp::inferReturnTypes(MLIRContext *, std::optional<Location>, Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  auto tile = dyn_cast<SharedType>(adaptor.getTile().getType());
  if (!tile)
    return failure();
  types.push_back(SharedType::get({kGroupRows, tile.getCols()}, tile.getElementType(),
                                  tile.getSwizzle(), tile.getPad()));
  return success();
}

LogicalResult GroupRowsOp::verify() {
  SharedType tile = getTile().getType();
  FailureOr<int64_t> groups = getGroups(*this);
  if (failed(groups) || failed(verifySlot(*this, tile)))
    return failure();
  int64_t row = tile.getCols() * tile.getElementBytes();
  if (tile.getRows() != kGroupRows * *groups || (tile.getSwizzle() && row > tile.getSwizzle()))
    return emitOpError("expected one panel of ") << kGroupRows * *groups << " rows, got " << tile;
  return success();
}

LogicalResult SetMaxRegistersOp::verify() {
  int64_t count = getCount();
  if (count < 24 || count > 256 || count % 8)
    return emitOpError("expected a multiple of 8 from 24 to 256, got ") << count;
  return success();
}
