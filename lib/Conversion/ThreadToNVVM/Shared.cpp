//===- Shared.cpp - ops on shared memory ----------------------------------===//

#include "EightBits.h"
#include "Patterns.h"
#include "SharedAccess.h"

using namespace mlir;
using namespace mirage::thread;

static Coord origin(std::optional<ArrayRef<int64_t>> at) {
  return at ? Coord{int32_t((*at)[0]), int32_t((*at)[1])} : Coord{};
}

namespace {
struct SharedAllocLowering : ThreadPattern<SharedAllocOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(SharedAllocOp op, Adaptor, Emitter &e, Results &results) const override {
    results.push_back({e.shared(op.getOffset())});
    return success();
  }
};

struct SlotLowering : ThreadPattern<SlotOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(SlotOp op, Adaptor operands, Emitter &e, Results &results) const override {
    int64_t bytes = op.getRing().getType().getSlotBytes();
    Value index = e.toI32(single(operands.getIndex()));
    results.push_back({e.offset(single(operands.getRing()), e.mul(index, bytes))});
    return success();
  }
};

struct GroupRowsLowering : ThreadPattern<GroupRowsOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(GroupRowsOp op, Adaptor operands, Emitter &e,
                      Results &results) const override {
    int64_t bytes = op.getType().getTotalBytes();
    results.push_back({e.offset(single(operands.getTile()), e.mul(e.group(), bytes))});
    return success();
  }
};

struct LoadSharedLowering : ThreadPattern<LoadSharedOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(LoadSharedOp op, Adaptor operands, Emitter &e,
                      Results &results) const override {
    FragmentType type = op.getType();
    SharedAccess access(op.getSource().getType(), type.getLinearLayout(), origin(op.getAt()),
                        op.getTransposed());
    SmallVector<Value> scalars = access.loadMatrix(e, single(operands.getSource()));
    for (Value &scalar : scalars)
      scalar =
          fromMemory(e, scalar, op.getSource().getType().getElementType(), type.getElementType());
    results.push_back(pack(e, type, scalars));
    return success();
  }
};

struct StoreSharedLowering : ThreadPattern<StoreSharedOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(StoreSharedOp op, Adaptor operands, Emitter &e, Results &) const override {
    FragmentType type = op.getValue().getType();
    SharedAccess access(op.getDest().getType(), type.getLinearLayout(), origin(op.getAt()),
                        op.getTransposed());
    access.store(e, single(operands.getDest()), unpack(e, type, operands.getValue()));
    return success();
  }
};
} // namespace

void mirage::thread::populateSharedPatterns(const TypeConverter &converter,
                                            RewritePatternSet &patterns) {
  patterns.add<SharedAllocLowering, SlotLowering, GroupRowsLowering, LoadSharedLowering,
               StoreSharedLowering>(converter, patterns.getContext());
}
