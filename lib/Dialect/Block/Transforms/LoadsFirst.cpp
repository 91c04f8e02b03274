//===- LoadsFirst.cpp - loads that wait for memory together ---------------===//

#include "mirage/Dialect/Block/Analysis/HeldTile.h"
#include "mirage/Dialect/Block/Analysis/RegisterEstimate.h"

using namespace mlir;
using namespace mirage;
using namespace mirage::block;

/// Registers of a thread that tiles may take: six blocks of four warps still
/// fit on a multiprocessor.
static constexpr int64_t comfortable = 64;

void mirage::block::moveLoadsFirst(kernel::LaunchOp launch) {
  // Warps that copy and warps that compute are apart: loads stay with those that read them.
  if (launch.getSchedule()->usesWarpgroups())
    return;
  Block &body = launch.getBody().front();
  int64_t most = std::max(comfortable, estimateTileRegisters(launch));
  Operation *place = &body.front();
  for (LoadOp load : llvm::make_early_inc_range(body.getOps<LoadOp>())) {
    if (load == place || getShared(load.getResult())) {
      if (load == place)
        place = place->getNextNode();
      continue;
    }
    Operation *next = load->getNextNode();
    load->moveBefore(place);
    if (estimateTileRegisters(launch) > most)
      load->moveBefore(next);
  }
}
