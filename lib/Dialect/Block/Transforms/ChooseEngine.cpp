//===- ChooseEngine.cpp - warpgroups where a launch allows them -----------===//

#include "mirage/Dialect/Block/Analysis/Clusters.h"
#include "mirage/Dialect/Block/Analysis/WarpgroupProducts.h"
#include "mirage/Dialect/Block/Transforms/Passes.h"
#include "mirage/Target/Resolve.h"

namespace mirage::block {
#define GEN_PASS_DEF_CHOOSEENGINE
#include "mirage/Dialect/Block/Transforms/Passes.h.inc"
} // namespace mirage::block

using namespace mlir;
using namespace mirage;
using namespace mirage::block;

namespace {
struct ChooseEngine : block::impl::ChooseEngineBase<ChooseEngine> {
  using ChooseEngineBase::ChooseEngineBase;

  void runOnOperation() override {
    FailureOr<const Chip *> target = getChip(getOperation()->getLoc(), chip);
    if (failed(target))
      return signalPassFailure();
    getOperation()->walk([&](kernel::LaunchOp launch) { check(launch, **target); });
  }

  void check(kernel::LaunchOp launch, const Chip &target) {
    std::optional<kernel::ScheduleAttr> schedule = launch.getSchedule();
    if (!schedule || !schedule->usesWarpgroups())
      return;
    std::optional<std::string> why = whyNoWarpgroups(launch, schedule->getWarps(), target);
    if (!why) {
      ++numKept;
      checkBlocks(launch);
      return;
    }
    launch.emitRemark("no products of warpgroups: expected ") << *why;
    launch.setScheduleAttr(schedule->withEngine(kernel::Engine::Warp));
    ++numDropped;
  }

  /// Removes clusters from the schedule if blocks cannot work in this way.
  static void checkBlocks(kernel::LaunchOp launch) {
    int64_t cluster = launch.getSchedule()->getCluster();
    std::optional<std::string> why = cluster > 1 ? whyNoCluster(launch, cluster) : std::nullopt;
    if (why) {
      launch.emitRemark("no cluster of blocks: expected ") << *why;
      launch.setScheduleAttr(launch.getSchedule()->withoutCluster());
    }
  }
};
} // namespace
