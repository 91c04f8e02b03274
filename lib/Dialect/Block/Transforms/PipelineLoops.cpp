//===- PipelineLoops.cpp - which copies run ahead of a loop ---------------===//

#include "mirage/Dialect/Block/Analysis/HeldTile.h"
#include "mirage/Dialect/Block/Analysis/LayoutModel.h"
#include "mirage/Dialect/Block/Analysis/LoopSchedule.h"
#include "mirage/Dialect/Block/Analysis/OverlappingTiles.h"
#include "mirage/Dialect/Block/Analysis/ProductPhases.h"
#include "mirage/Dialect/Block/Analysis/RegisterEstimate.h"
#include "mirage/Dialect/Block/Analysis/SharedBytes.h"
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
  static int64_t getBytes(kernel::LaunchOp launch, int64_t stages) {
    SharedBytes bytes(launch, stages);
    return bytes.outside + bytes.loops;
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
    if (!launch.getSchedule()->usesWarpgroups()) {
      numFirst += moveCopiesFirst(launch, stages, target);
      return success();
    }
    int64_t registers = estimateTileRegisters(launch);
    for (auto loop : launch.getBody().getOps<LoopOp>()) {
      FailureOr<int64_t> needed = schedule(launch, loop, target);
      if (failed(needed))
        return failure();
      registers = std::max(registers, *needed);
    }
    shareRegisters(launch, registers, target);
    return success();
  }

  /// Gives the ops of a loop's body stages and an order, unless they have them: the last products
  /// of a step run in parallel with the first ones of the next step if registers hold the values
  /// carried from one to the other. Returns the registers that this takes, or 0.
  FailureOr<int64_t> schedule(kernel::LaunchOp launch, LoopOp loop, const Chip &target) {
    int64_t groups = launch.getSchedule()->getWarps() / 4;
    int64_t budget = getTileRegisterBudget(target, *launch.getSchedule());
    int64_t around = estimateTileRegisters(launch);
    LoopBody body(loop, groups, budget);
    int64_t plain = body.getPlainRegisters();
    // What the estimate counts besides the results of the body.
    body.problem.registers = budget - std::max<int64_t>(around - plain, 0);
    if (isScheduled(loop)) {
      if (failed(applySchedule(loop, groups, body.problem.registers)))
        return failure();
    } else {
      if (!body.isSchedulable || body.ops.size() < 2 || loop.getExtent() < 2)
        return 0;
      std::optional<ModuloSchedule> found = solveModulo(body.problem, placesTried);
      if (!found)
        return 0;
      body.write(*found);
      if (failed(applySchedule(loop, groups)))
        return failure();
    }
    return finishSchedule(launch, loop, target);
  }

  /// The registers of a scheduled loop, whose groups take turns if they defer products.
  int64_t finishSchedule(kernel::LaunchOp launch, LoopOp loop, const Chip &target) {
    ProductPhases phases(loop);
    if (!phases.isDeferred())
      return 0;
    ++numDeferred;
    int64_t needed = estimateTileRegisters(launch);
    for (Value factor : phases.getHeldFactors())
      needed += getTileRegisters(factor);
    if (phases.getCount() == 1)
      return needed;
    // Turns are counted from a block's start.
    if (launch.getSchedule()->getWarps() > 4 && !launch.getSchedule()->getResident())
      loop->setAttr(kTurns, UnitAttr::get(&getContext()));
    return std::max(needed, speculate(launch, loop, target));
  }

  /// Exponentials are taken before the maximum of their step is known, while the products of the
  /// previous step run. This requires that registers also hold the scores, for steps that are
  /// repeated. Returns the registers that this takes, or 0.
  int64_t speculate(kernel::LaunchOp launch, LoopOp loop, const Chip &target) {
    std::optional<SpeculatedStep> step = getSpeculatedStep(loop);
    // Two blocks that compute the same rows must give the same numbers. The steps that a warp
    // repeats depend on all of its rows, so they may differ between blocks.
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

  /// A few milliseconds; bodies of up to about eight ops are solved exactly.
  static constexpr int64_t placesTried = 2000;

  /// Registers of a thread in addition to the sums of running products: descriptors, addresses,
  /// counters. The assembler spills none while products run: with fewer registers it serialises the
  /// products.
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

  /// Moves registers to the warps that compute if an even share is not enough.
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
