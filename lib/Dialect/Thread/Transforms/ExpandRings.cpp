//===- ExpandRings.cpp - rings as tiles and mbarriers ---------------------===//

#include "mirage/Dialect/Thread/IR/Thread.h"
#include "mirage/Dialect/Thread/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

namespace mirage::thread {
#define GEN_PASS_DEF_EXPANDRINGS
#include "mirage/Dialect/Thread/Transforms/Passes.h.inc"
} // namespace mirage::thread

using namespace mlir;
using namespace mirage::thread;

namespace {
/// The expansion of one ring.
class ExpandedRing {
public:
  /// Allocates from `offset` on, which moves to the end: until they are planned, allocations are
  /// placed one after the other, since equal ones would count as one.
  ExpandedRing(RingCreateOp op, int64_t &offset)
      : type(op.getType()), cluster(op.getCluster()), isWritten(op.getWriters() > 0),
        copies(op.getCopies()) {
    OpBuilder builder(op);
    Location loc = op.getLoc();
    int64_t slots = type.getSlots();
    auto take = [&](int64_t bytes, int64_t alignment) {
      int64_t start = llvm::alignTo(offset, alignment);
      offset = start + bytes;
      return builder.getI64IntegerAttr(start);
    };
    for (SharedType tile : type.getTiles()) {
      auto slotted = SharedType::get({slots, tile.getRows(), tile.getCols()}, tile.getElementType(),
                                     tile.getSwizzle(), tile.getPad());
      tiles.push_back(SharedAllocOp::create(builder, loc, slotted,
                                            take(slotted.getTotalBytes(), slotted.getAlignment())));
    }
    auto barriers = MbarrierType::get(builder.getContext(), slots);
    full = MbarrierAllocOp::create(builder, loc, barriers, take(slots * 8, 8));
    empty = MbarrierAllocOp::create(builder, loc, barriers, take(slots * 8, 8));
    MbarrierInitOp::create(builder, loc, full, builder.getI64IntegerAttr(op.getFullArrivals()));
    MbarrierInitOp::create(builder, loc, empty,
                           builder.getI64IntegerAttr(op.getReaders() * cluster));
    if (cluster == 1) {
      BarrierOp::create(builder, loc);
      return;
    }
    rank = ClusterRankOp::create(builder, loc);
    ClusterBarrierOp::create(builder, loc);
  }

  void expand(RingFillOp op) const {
    OpBuilder builder(op);
    Location loc = op.getLoc();
    Place place = getPlace(builder, loc, op.getStep());
    SmallVector<Value> filled(tiles);
    int64_t bytes = type.getStepBytes();
    if (std::optional<ArrayRef<int64_t>> into = op.getInto()) {
      filled = llvm::map_to_vector(*into, [&](int64_t number) { return tiles[number]; });
      bytes = 0;
      for (int64_t number : *into)
        bytes += type.getTileBytes(number);
    } else {
      waitForFree(builder, loc, place);
    }
    MbarrierExpectOp::create(builder, loc, full, place.slot, builder.getI64IntegerAttr(bytes));
    ValueRange coordinates = op.getCoordinates();
    ArrayRef<int64_t> shared = op.getShared().value_or(ArrayRef<int64_t>());
    for (auto [number, map, tile] : llvm::enumerate(op.getMaps(), filled)) {
      size_t dims = cast<TensorMapType>(map.getType()).getBox().size();
      Value slot = SlotOp::create(builder, loc, tile, place.slot);
      bool isShared = llvm::is_contained(shared, int64_t(number));
      TmaLoadOp::create(builder, loc, map, coordinates.take_front(dims), slot,
                        isShared ? rank : Value(), full, place.slot,
                        isShared ? builder.getI64IntegerAttr((1 << cluster) - 1) : IntegerAttr());
      coordinates = coordinates.drop_front(dims);
    }
    op.erase();
  }

  void expand(RingAcquireOp op) const {
    OpBuilder builder(op);
    Place place = getPlace(builder, op.getLoc(), op.getStep());
    waitForFree(builder, op.getLoc(), place);
    replaceBySlots(builder, op, place);
  }

  /// Warps arrive for what they have stored, threads when their copies are done.
  void expand(RingPublishOp op) const {
    OpBuilder builder(op);
    Place place = getPlace(builder, op.getLoc(), op.getStep());
    if (copies)
      CopyArriveOp::create(builder, op.getLoc(), full, place.slot);
    MbarrierArriveOp::create(builder, op.getLoc(), full, place.slot);
    op.erase();
  }

  void expand(RingWaitOp op) const {
    OpBuilder builder(op);
    Location loc = op.getLoc();
    Place place = getPlace(builder, loc, op.getStep());
    MbarrierWaitOp::create(builder, loc, full, place.slot, getParity(builder, loc, place.round));
    // Products read through the asynchronous proxy; writes of threads do not go through it.
    if (isWritten)
      FenceOp::create(builder, loc, FenceKind::AsyncProxy);
    replaceBySlots(builder, op, place);
  }

  void expand(RingReleaseOp op) const {
    OpBuilder builder(op);
    Place place = getPlace(builder, op.getLoc(), op.getStep());
    MbarrierArriveOp::create(builder, op.getLoc(), empty, place.slot, cluster);
    op.erase();
  }

private:
  struct Place {
    Value slot, round;
  };

  /// Until the step that used the slot before has been released.
  void waitForFree(OpBuilder &builder, Location loc, const Place &place) const {
    Value previous = arith::AddIOp::create(builder, loc, place.round, index(builder, loc, 1));
    MbarrierWaitOp::create(builder, loc, empty, place.slot, getParity(builder, loc, previous));
  }
  template <typename OpT>
  void replaceBySlots(OpBuilder &builder, OpT op, const Place &place) const {
    for (auto [result, tile] : llvm::zip_equal(op.getTiles(), tiles))
      result.replaceAllUsesWith(SlotOp::create(builder, op.getLoc(), tile, place.slot));
    op.erase();
  }
  static Value index(OpBuilder &builder, Location loc, int64_t value) {
    return arith::ConstantIndexOp::create(builder, loc, value);
  }
  static Value getParity(OpBuilder &builder, Location loc, Value round) {
    return arith::RemUIOp::create(builder, loc, round, index(builder, loc, 2));
  }
  Place getPlace(OpBuilder &builder, Location loc, Value step) const {
    Value slots = index(builder, loc, type.getSlots());
    return {arith::RemUIOp::create(builder, loc, step, slots),
            arith::DivUIOp::create(builder, loc, step, slots)};
  }

  RingType type;
  int64_t cluster;
  bool isWritten, copies;
  SmallVector<Value> tiles;
  /// `rank` of the block in its cluster, null without one.
  Value full, empty, rank;
};

struct ExpandRings : mirage::thread::impl::ExpandRingsBase<ExpandRings> {
  void runOnOperation() override {
    SmallVector<RingCreateOp> rings;
    getOperation()->walk([&](RingCreateOp ring) { rings.push_back(ring); });
    // No block leaves while others of its cluster copy to it or release slots of its own.
    llvm::SmallSetVector<Block *, 1> inClusters;
    for (RingCreateOp ring : rings)
      if (ring.getCluster() > 1)
        inClusters.insert(ring->getBlock());
    for (Block *block : inClusters) {
      OpBuilder builder(block->getTerminator());
      ClusterBarrierOp::create(builder, block->getTerminator()->getLoc());
    }
    int64_t offset = 0;
    for (RingCreateOp ring : rings) {
      ExpandedRing expanded(ring, offset);
      for (Operation *user : llvm::make_early_inc_range(ring->getUsers())) {
        bool known = TypeSwitch<Operation *, bool>(user)
                         .Case<RingFillOp, RingAcquireOp, RingPublishOp, RingWaitOp, RingReleaseOp>(
                             [&](auto op) {
                               expanded.expand(op);
                               return true;
                             })
                         .Default(false);
        if (!known) {
          user->emitOpError("expected a ring to be used by ring ops alone");
          return signalPassFailure();
        }
      }
      ring->erase();
      ++numRings;
    }
  }
};
} // namespace
