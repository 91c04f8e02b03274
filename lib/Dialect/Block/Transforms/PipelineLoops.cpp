//===- PipelineLoops.cpp - which copies run ahead of a loop ---------------===//

#include "mirage/Dialect/Block/Analysis/HeldTile.h"
#include "mirage/Dialect/Block/Analysis/LayoutModel.h"
#include "mirage/Dialect/Block/Analysis/OverlappingTiles.h"
#include "mirage/Dialect/Block/Analysis/ProductPhases.h"
#include "mirage/Dialect/Block/Analysis/RegisterEstimate.h"
#include "mirage/Dialect/Block/Analysis/SpeculatedMaxima.h"
#include "mirage/Dialect/Block/Analysis/WarpgroupProducts.h"
#include "mirage/Dialect/Block/Transforms/Passes.h"
#include "mirage/Dialect/Thread/IR/LayoutConversion.h"
#include "mirage/Target/Resolve.h"

namespace mirage::block {
#define GEN_PASS_DEF_PIPELINELOOPS
#include "mirage/Dialect/Block/Transforms/Passes.h.inc"
} // namespace mirage::block

using namespace mlir;
using namespace mirage;
using namespace mirage::block;
using thread::SharedType;

namespace {
struct PipelineLoops : block::impl::PipelineLoopsBase<PipelineLoops> {
  using PipelineLoopsBase::PipelineLoopsBase;

  void runOnOperation() override {
    FailureOr<const Chip *> target = getChip(getOperation()->getLoc(), chip);
    if (failed(target))
      return signalPassFailure();
    WalkResult walk = getOperation()->walk([&](kernel::LaunchOp launch) {
      if (succeeded(pipeline(launch, **target)))
        return WalkResult::advance();
      return WalkResult::interrupt();
    });
    if (walk.wasInterrupted())
      signalPassFailure();
  }

private:
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

  /// Scratch memory for a change of layout; where the warps hold summands, they
  /// are added on the way.
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
    int64_t conversion =
        needed == narrow.getLinearLayout() ? 0 : getConversionBytes(narrow, needed);
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

  /// Bytes of shared memory with rings of `stages` slots: tiles outside of
  /// loops, and loops at top level one after the other, each with the largest
  /// scratch memory of its ops. `mirage-plan-shared-memory` places the same
  /// buffers by their real lifetimes:
  ///
  ///   sum of tiles outside of loops
  ///     + max over loops of (sum over staged loads of
  ///                              min(stages, steps) * padded tile bytes
  ///                          + max over ops of scratch bytes)
  ///
  /// With warpgroups a ring has two mbarriers a slot, which stay, and loads outside
  /// of loops are rings of one slot. Blocks that go on with another tile store one,
  /// and exchange values behind loops, while all rings are filled.
  static int64_t getBytes(kernel::LaunchOp launch, int64_t stages) {
    constexpr int64_t barriers = 2 * 8;
    int64_t outside = 0;
    if (launch.getSchedule()->usesWarpgroups()) {
      for (auto loop : launch.getBody().getOps<LoopOp>())
        outside += barriers * std::min<int64_t>(stages, loop.getExtent()) *
                   ProductPhases(loop).getRings().size();
      for (Operation &op : launch.getBody().front())
        outside += isa<LoadOp, GatherOp>(op) && getShared(op.getResult(0)) ? barriers : 0;
      outside += getStoreBytes(launch);
    }
    DenseMap<Operation *, int64_t> inLoop;
    for (auto convert : launch.getBody().getOps<ConvertLayoutOp>())
      if (SharedType kept = getShared(convert.getResult()))
        outside += kept.getTotalBytes();
    launch.getBody().walk([&](Operation *load) {
      SharedType shared =
          isa<LoadOp, GatherOp>(load) ? getShared(load->getResult(0)) : SharedType();
      if (!shared)
        return;
      Operation *top = load;
      while (top->getParentOp() != launch)
        top = top->getParentOp();
      int64_t slots = 1;
      if (auto loop = dyn_cast<LoopOp>(load->getParentOp()))
        slots = std::min<int64_t>(stages, loop.getExtent());
      (top == load ? outside : inLoop[top]) += slots * shared.getSlotBytes();
    });
    auto getMostScratch = [](Operation *around) {
      int64_t most = 0;
      around->walk([&](Operation *op) { most = std::max(most, getScratchBytes(op)); });
      return most;
    };
    int64_t largest = 0, rings = 0;
    for (auto [loop, bytes] : inLoop) {
      rings += bytes;
      largest = std::max(largest, bytes + getMostScratch(loop));
    }
    bool goesOn = launch.getSchedule()->getResident();
    return outside + (goesOn ? rings + getMostScratch(launch) : largest);
  }

  /// Bytes beside the rings through which results leave blocks that go on.
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

  LogicalResult pipeline(kernel::LaunchOp launch, const Chip &target) {
    if (!launch.getSchedule())
      return launch.emitOpError("expected a schedule (#kernel.schedule), got none");
    if (failed(checkLayouts(launch)))
      return failure();
    int64_t wanted = target.has(Ability::AsyncCopy) ? launch.getSchedule()->getStages() : 1;
    int64_t stages = wanted;
    while (stages > 1 && getBytes(launch, stages) > target.sharedBlock)
      --stages;
    if (stages < wanted)
      launch.emitRemark("pipeline of ")
          << stages << " stages instead of " << wanted << ": the latter needs "
          << getBytes(launch, wanted) << " bytes of shared memory, " << target.name << " has "
          << target.sharedBlock;
    launch.getBody().walk([&](LoopOp loop) { makeRings(loop, stages); });
    if (!launch.getSchedule()->usesWarpgroups())
      return success();
    int64_t registers = estimateTileRegisters(launch);
    for (auto loop : launch.getBody().getOps<LoopOp>())
      registers = std::max(registers, deferProducts(launch, loop, target));
    shareRegisters(launch, registers, target);
    return success();
  }

  /// The last products of a step run beside the first ones of the next step where
  /// registers hold what is carried from the one to the other: their factors.
  /// Returns the registers that this takes, or 0.
  int64_t deferProducts(kernel::LaunchOp launch, LoopOp loop, const Chip &target) {
    ProductPhases phases(loop);
    if (phases.whyNotDeferred() || loop.getExtent() < 2)
      return 0;
    int64_t needed = estimateTileRegisters(launch);
    for (Value factor : phases.getHeldFactors())
      needed += getTileRegisters(factor);
    if (needed > getTileRegisterBudget(target, *launch.getSchedule()))
      return 0;
    for (MatmulOp matmul : phases.getProducts(phases.getCount()))
      matmul.setDeferred(true);
    // Turns are counted from a block's start.
    if (launch.getSchedule()->getWarps() > 4 && !launch.getSchedule()->getResident())
      loop->setAttr(kTurns, UnitAttr::get(&getContext()));
    ++numDeferred;
    return std::max(needed, speculate(launch, loop, target));
  }

  /// Exponentials are taken before the maximum of their step is known where registers
  /// hold the scores beside them, for a step that is done again, while the products of
  /// the step before run. Returns the registers that this takes, or 0.
  int64_t speculate(kernel::LaunchOp launch, LoopOp loop, const Chip &target) {
    std::optional<SpeculatedStep> step = getSpeculatedStep(loop);
    // Two blocks that compute the same rows give the same numbers. Which steps a warp does
    // again depends on all of its rows, and is not the same for both.
    if (!step || computesRowsTwice(launch))
      return 0;
    int64_t needed = besideSums + 2 * getTileRegisters(step->scores);
    for (Value result : loop.getResults())
      needed += getTileRegisters(result);
    for (Value factor : ProductPhases(loop).getHeldFactors())
      needed += getTileRegisters(factor);
    if (needed > getTileRegisterBudget(target, *launch.getSchedule()))
      return 0;
    loop->setAttr(kSpeculates, UnitAttr::get(&getContext()));
    ++numSpeculating;
    return needed;
  }

  /// Registers of a thread beside the sums of products that run: descriptors,
  /// addresses, counters. The assembler spills none while products run: with fewer
  /// it makes them wait for each other.
  static constexpr int64_t besideSums = 26;

  /// Registers of a thread for the sums of the loop that has most of them.
  static int64_t getSums(kernel::LaunchOp launch) {
    int64_t most = 0;
    for (auto loop : launch.getBody().getOps<LoopOp>()) {
      int64_t sums = 0;
      for (Value result : loop.getResults())
        sums += getTileRegisters(result);
      most = std::max(most, sums);
    }
    return most;
  }

  /// Moves registers to the warps that compute where an even share is not enough.
  void shareRegisters(kernel::LaunchOp launch, int64_t needed, const Chip &target) {
    int64_t warps = launch.getSchedule()->getBlockWarps();
    bool enough = needed <= getTileRegisterBudget(target, warps) &&
                  getSums(launch) + besideSums <= target.getMostRegisters(warps);
    if (enough || !target.has(Ability::WarpRegisters))
      return;
    RegisterShares shares =
        getRegisterShares(target, launch.getSchedule()->getWarps(), hasWrittenTiles(launch));
    if (shares.computing > target.getMostRegisters(warps))
      launch->setAttr(
          kRegisterShares,
          Builder(&getContext()).getDenseI64ArrayAttr({shares.copying, shares.computing}));
  }

  void makeRings(LoopOp loop, int64_t stages) {
    SmallVector<Value> tiles = getStagedTiles(loop);
    if (tiles.empty())
      return;
    int64_t slots = std::min<int64_t>(stages, loop.getExtent());
    loop.setStages(slots);
    for (Value staged : tiles) {
      SharedType tile = getShared(staged).getSlotType();
      auto ring = SharedType::get({slots, tile.getRows(), tile.getCols()}, tile.getElementType(),
                                  tile.getSwizzle(), tile.getPad());
      staged.setType(withHolder(getTile(staged), ring));
      ++numRings;
    }
  }
};
} // namespace
