//===- SharedBytes.cpp - shared memory that a launch needs ----------------===//

#include "mirage/Dialect/Block/Analysis/SharedBytes.h"

#include "mirage/Dialect/Block/Analysis/Boxes.h"
#include "mirage/Dialect/Block/Analysis/HeldTile.h"
#include "mirage/Dialect/Block/Analysis/LayoutModel.h"
#include "mirage/Dialect/Block/Analysis/ProductPhases.h"
#include "mirage/Dialect/Thread/IR/LayoutConversion.h"

using namespace mlir;
using namespace mirage;
using namespace mirage::block;
using thread::SharedType;

/// Scratch memory for the sums or maxima of `layout` along `dims`, one
/// dimension after the other.
static int64_t getReductionBytes(thread::LinearLayout layout, ArrayRef<int64_t> dims) {
  int64_t most = 0;
  for (int64_t dim : dims) {
    int64_t summands = 1;
    for (thread::Coord vector : layout.getWarp())
      summands *= vector[dim] ? 2 : 1;
    layout = layout.reduce(dim);
    if (summands > 1)
      most = std::max(most, summands * layout.getExtent(0) * layout.getExtent(1) * 4);
  }
  return most;
}

/// Scratch memory for a change of layout; if the warps hold summands, these are added on the way.
static int64_t getConversionBytes(thread::FragmentType from, const thread::LinearLayout &to,
                                  bool isSum = false) {
  int64_t summands = 1;
  for (thread::Coord vector : from.getLinearLayout().getWarp())
    summands *= isSum && vector.isZero() ? 2 : 1;
  if (!isSum && thread::planWarpConversion(from.getLinearLayout(), to))
    return 0;
  return summands * thread::getExchangeType(from).getTotalBytes();
}

/// Scratch memory on the way from a running maximum to the factor of the
/// accumulator that it rescales.
static int64_t getRescaleBytes(Value runningMax, Value accumulator) {
  thread::FragmentType held = getFragment(runningMax), target = getFragment(accumulator);
  SmallVector<int64_t> padded;
  for (int64_t dim : {0, 1})
    if (held.getShape()[dim] != 1 && getTile(runningMax).getShape()[dim] == 1 &&
        getTile(accumulator).getShape()[dim] != 1)
      padded.push_back(dim);
  auto narrow = held.withLayout(reduceLayout(held.getLinearLayout(), padded));
  thread::LinearLayout needed = reduceLayout(
      target.getLinearLayout(), getBroadcastDims(narrow.getShape(), target.getShape()));
  int64_t conversion = needed == narrow.getLinearLayout() ? 0 : getConversionBytes(narrow, needed);
  return std::max(getReductionBytes(held.getLinearLayout(), padded), conversion);
}

/// Scratch memory that the op needs at the thread level.
static int64_t getScratchBytes(Operation *op) {
  if (auto accumulate = dyn_cast<AccumulateOp>(op)) {
    int64_t most = 0;
    for (auto [index, result] : llvm::enumerate(op->getParentOp()->getResults()))
      if (Value runningMax = accumulate.getRescale(index))
        most = std::max(most, getRescaleBytes(runningMax, result));
    return most;
  }
  if (!isa<ConvertLayoutOp, ReduceOp>(op))
    return 0;
  thread::FragmentType from = getFragment(op->getOperand(0)), to = getFragment(op->getResult(0));
  if (!from || !to || from == to)
    return 0;
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return to.getPartial() ? 0 : getReductionBytes(from.getLinearLayout(), reduce.getDims());
  return getConversionBytes(from, to.getLinearLayout(), from.getPartial() && !to.getPartial());
}

static int64_t getMostScratch(Operation *around) {
  int64_t most = 0;
  around->walk([&](Operation *op) { most = std::max(most, getScratchBytes(op)); });
  return most;
}

/// Bytes, in addition to the rings, of the buffers through which results leave blocks that continue
/// with another tile.
static int64_t getStoreBytes(kernel::LaunchOp launch) {
  if (!launch.getSchedule()->getResident())
    return 0;
  int64_t bytes = 0;
  auto store = cast<StoreOp>(launch.getBody().front().getTerminator());
  for (unsigned number = 0; number < launch->getNumResults(); ++number) {
    std::optional<BoxStore> box = getBoxStore(store, number);
    if (!box)
      continue;
    thread::FragmentType held = getFragment(stripReshape(store.getTiles()[number]));
    StoreParts parts = getStoreParts(*box, held.withElementType(box->tile.getElementType()));
    bytes += parts.buffer.getTotalBytes();
  }
  return bytes;
}

/// Bytes of the mbarriers of all rings.
static int64_t getBarrierBytes(kernel::LaunchOp launch, int64_t stages) {
  constexpr int64_t barriers = 2 * 8;
  int64_t bytes = 0;
  for (auto loop : launch.getBody().getOps<LoopOp>())
    bytes += barriers * std::min<int64_t>(stages, loop.getExtent()) *
             ProductPhases(loop).getRings().size();
  for (Operation &op : launch.getBody().front())
    bytes += isa<LoadOp, GatherOp>(op) && getShared(op.getResult(0)) ? barriers : 0;
  return bytes;
}

SharedBytes::SharedBytes(kernel::LaunchOp launch, int64_t stages) {
  if (launch.getSchedule()->usesWarpgroups())
    outside += getBarrierBytes(launch, stages) + getStoreBytes(launch);
  for (auto convert : launch.getBody().getOps<ConvertLayoutOp>())
    if (SharedType kept = getShared(convert.getResult()))
      outside += kept.getTotalBytes();
  DenseMap<Operation *, int64_t> inLoop;
  launch.getBody().walk([&](Operation *load) {
    SharedType shared = isa<LoadOp, GatherOp>(load) ? getShared(load->getResult(0)) : SharedType();
    if (!shared)
      return;
    Operation *top = launch.getBody().front().findAncestorOpInBlock(*load);
    int64_t slots = 1;
    if (auto loop = dyn_cast<LoopOp>(load->getParentOp()))
      slots = std::min<int64_t>(stages, loop.getExtent());
    (top == load ? outside : inLoop[top]) += slots * shared.getSlotBytes();
  });
  int64_t rings = 0;
  for (auto [loop, bytes] : inLoop) {
    rings += bytes;
    loops = std::max(loops, bytes + getMostScratch(loop));
  }
  for (Operation &op : launch.getBody().front())
    if (!isa<LoopOp>(op))
      scratch = std::max(scratch, getScratchBytes(&op));
  if (launch.getSchedule()->getResident())
    loops = rings + getMostScratch(launch);
}
