//===- AssignLayouts.cpp - where each tile is held, and how ---------------===//

#include "PrepareLayouts.h"
#include "WriteLayouts.h"

#include "mirage/Dialect/Block/Analysis/HeldTile.h"
#include "mirage/Dialect/Block/Analysis/LayoutModel.h"
#include "mirage/Dialect/Block/Analysis/RegisterEstimate.h"
#include "mirage/Dialect/Block/Analysis/WarpgroupProducts.h"
#include "mirage/Dialect/Block/Transforms/Passes.h"
#include "mirage/Target/Resolve.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/MathExtras.h"

namespace mirage::block {
#define GEN_PASS_DEF_ASSIGNLAYOUTS
#include "mirage/Dialect/Block/Transforms/Passes.h.inc"
} // namespace mirage::block

using namespace mlir;
using namespace mirage;
using namespace mirage::block;

namespace {
struct AssignLayouts : block::impl::AssignLayoutsBase<AssignLayouts> {
  using AssignLayoutsBase::AssignLayoutsBase;

  void runOnOperation() override {
    FailureOr<const Chip *> target = getChip(getOperation()->getLoc(), chip);
    if (failed(target))
      return signalPassFailure();
    SmallVector<kernel::LaunchOp> launches;
    getOperation()->walk([&](kernel::LaunchOp launch) { launches.push_back(launch); });
    for (kernel::LaunchOp launch : launches)
      if (failed(checkInput(launch, **target)) || failed(assign(launch, **target)))
        return signalPassFailure();
  }

  LogicalResult checkInput(kernel::LaunchOp launch, const Chip &target) {
    if (!launch.getSchedule())
      return launch.emitOpError("expected a schedule (#kernel.schedule), got none");
    int64_t warps = launch.getSchedule()->getWarps();
    if (!llvm::isPowerOf2_64(warps) || warps * 32 > target.maxThreads)
      return launch.emitOpError("expected a power of two of at most ")
             << target.maxThreads / 32 << " warps, got " << warps;
    if (launch.getSchedule()->usesWarpgroups())
      if (auto why = whyNoWarpgroups(launch, warps, target))
        return launch.emitOpError("expected ")
               << *why << " (mirage-choose-engine leaves warpgroups only where they are possible)";
    WalkResult walk = launch.getBody().walk([&](Operation *op) {
      for (Value value : op->getResults()) {
        auto tile = dyn_cast<TileType>(value.getType());
        if (!tile)
          continue;
        if (tile.getElementType().isF64()) {
          op->emitOpError("expected tiles of f16, bf16 or f32 (kernels are not generated for "
                          "f64), got ")
              << tile;
          return WalkResult::interrupt();
        }
        if (tile.getRank() != 2 && !isa<ConstantOp, LoadOp, GatherOp, IntegersOp, ReshapeOp>(op)) {
          op->emitOpError("expected flattened tiles (mirage-flatten-tiles), got ") << tile;
          return WalkResult::interrupt();
        }
      }
      if (auto matmul = dyn_cast<MatmulOp>(op)) {
        Type lhs = getTile(matmul.getLhs()).getElementType(),
             rhs = getTile(matmul.getRhs()).getElementType();
        if (lhs != rhs) {
          op->emitOpError("expected operands of one element type (mirage-flatten-tiles), got ")
              << lhs << " and " << rhs;
          return WalkResult::interrupt();
        }
      }
      return WalkResult::advance();
    });
    return failure(walk.wasInterrupted());
  }

  /// Launches whose tiles need more registers than are available get more warps, if that provides
  /// enough.
  LogicalResult assign(kernel::LaunchOp launch, const Chip &target) {
    int64_t warps = launch.getSchedule()->getWarps();
    OpBuilder builder(launch);
    auto original = cast<kernel::LaunchOp>(launch->clone());
    llvm::scope_exit dropOriginal([&] { original->erase(); });
    if (failed(assignFor(launch, warps, target)))
      return failure();
    for (int64_t more = 2 * warps; !fits(launch, target) && 32 * more <= target.maxThreads;
         more *= 2) {
      if (launch.getSchedule()->usesWarpgroups() && whyNoWarpgroups(original, more, target))
        break;
      builder.setInsertionPoint(launch);
      auto trial = cast<kernel::LaunchOp>(builder.clone(*original));
      trial.setScheduleAttr(launch.getSchedule()->withWarps(more));
      if (succeeded(assignFor(trial, more, target)) && fits(trial, target)) {
        launch->replaceAllUsesWith(trial->getResults());
        launch->erase();
        ++numWidened;
        break;
      }
      trial->erase();
    }
    return success();
  }

  static bool fits(kernel::LaunchOp launch, const Chip &target) {
    return estimateTileRegisters(launch) <= getTileRegisterBudget(target, *launch.getSchedule());
  }

  LogicalResult assignFor(kernel::LaunchOp launch, int64_t numWarps, const Chip &target) {
    prepareLayouts(launch, numWarps, target);
    ValueSet staged = findStaged(launch, target);
    PaddingAnalysis padding(launch, numWarps);
    LayoutModel model(launch, padding, numWarps, staged, target.sharedBlock);
    const AssignmentProblem &problem = model.getProblem();
    if (auto wrong = problem.check())
      return launch.emitOpError("layout assignment is ill-posed: ") << *wrong;
    std::optional<Assignment> solution = solveByElimination(problem, maxTable);
    numExact += solution.has_value();
    if (!solution)
      solution = solveByDescent(problem);
    if (auto wrong = problem.verify(solution->choices))
      return launch.emitOpError("found no layouts: ") << *wrong;
    numVariables += problem.variables.size();
    numConversions += writeLayouts(launch, model, padding, solution->choices, staged, numWarps);
    if (fits(launch, target))
      moveLoadsFirst(launch);
    else
      orderForRegisters(launch);
    Builder builder(&getContext());
    launch->setAttr("block.registers", builder.getI64IntegerAttr(estimateTileRegisters(launch)));
    return success();
  }
};

} // namespace
