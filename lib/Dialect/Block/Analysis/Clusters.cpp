//===- Clusters.cpp - blocks that copy tiles for each other ---------------===//

#include "mirage/Dialect/Block/Analysis/Clusters.h"

#include "mirage/Dialect/Block/Analysis/Boxes.h"
#include "mirage/Dialect/Block/Analysis/ShiftedBoxes.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mirage;
using namespace mirage::block;

/// Whether blocks at different positions along an axis load different tiles.
static bool isCutAlong(LoadOp load, StringRef axis) {
  return llvm::any_of(load.getMap(), [&](Attribute axes) {
    return llvm::any_of(cast<ArrayAttr>(axes),
                        [&](Attribute name) { return cast<StringAttr>(name).getValue() == axis; });
  });
}

int64_t mirage::block::getPartDim(TileType tile) {
  ArrayRef<int64_t> shape = tile.getShape();
  return llvm::find_if(shape.drop_back(), [](int64_t extent) { return extent > 1; }) -
         shape.begin();
}

/// Whether a tile is a box that divides into `blocks` parts of whole rows, each contiguous in
/// shared memory.
static bool hasParts(LoadOp load, int64_t blocks) {
  ArrayRef<int64_t> rows = load.getType().getShape().drop_back();
  size_t dim = getPartDim(load.getType());
  if (!isBox(load) || dim == rows.size() || rows[dim] % blocks)
    return false;
  int64_t part = 1;
  for (int64_t extent : rows)
    part *= extent;
  return part / blocks % thread::kPartRows == 0;
}

/// Bytes that all steps of a block's loops copy and that the block's neighbours along an axis copy
/// as well.
static int64_t getSharedBytes(kernel::LaunchOp launch, StringRef axis, int64_t blocks) {
  int64_t total = 0;
  for (auto loop : launch.getBody().getOps<LoopOp>())
    for (auto load : loop.getBody().getOps<LoadOp>()) {
      if (isCutAlong(load, axis) || !hasParts(load, blocks))
        continue;
      auto tensor = cast<RankedTensorType>(load.getSource().getType());
      int64_t bytes = tensor.getElementTypeBitWidth() / 8 * loop.getExtent();
      for (int64_t extent : load.getType().getShape())
        bytes *= extent;
      total += bytes;
    }
  return total;
}

/// The axis along which blocks exchange totals.
static StringRef getExchangeAxis(kernel::LaunchOp launch) {
  auto totals = launch.getBody().getOps<ClusterReduceOp>();
  return totals.empty() ? StringRef() : (*totals.begin()).getAxis();
}

StringRef mirage::block::getClusterAxis(kernel::LaunchOp launch, int64_t blocks) {
  if (!launch.getSchedule()->usesWarpgroups())
    return getExchangeAxis(launch);
  StringRef best;
  int64_t most = 0;
  for (auto [name, extent] : llvm::zip_equal(launch.getGridNames(), launch.getGridExtents())) {
    StringRef axis = cast<StringAttr>(name).getValue();
    int64_t bytes = extent % blocks ? 0 : getSharedBytes(launch, axis, blocks);
    if (bytes > most) {
      most = bytes;
      best = axis;
    }
  }
  return best;
}

int64_t mirage::block::getSharers(LoadOp load) {
  auto launch = load->getParentOfType<kernel::LaunchOp>();
  int64_t blocks = launch.getSchedule()->getCluster();
  if (blocks == 1 || !launch.getSchedule()->usesWarpgroups() || !isa<LoopOp>(load->getParentOp()))
    return 1;
  StringRef axis = getClusterAxis(launch, blocks);
  return axis.empty() || isCutAlong(load, axis) || !hasParts(load, blocks) ? 1 : blocks;
}

std::optional<std::string> mirage::block::whyNoCluster(kernel::LaunchOp launch, int64_t blocks) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  StringRef axis = getClusterAxis(launch, blocks);
  if (!launch.getSchedule()->usesWarpgroups()) {
    if (!axis.empty())
      return std::nullopt;
    return "totals over the blocks of each cluster (mirage-split-over-clusters), got none";
  }
  if (axis.empty()) {
    stream << "an axis of a multiple of " << blocks << " blocks along which loops load the same "
           << "tiles, of a multiple of " << thread::kPartRows * blocks << " rows, got a grid of ";
    llvm::interleave(
        llvm::zip_equal(launch.getGridNames(), launch.getGridExtents()), stream,
        [&](auto pair) {
          stream << cast<StringAttr>(std::get<0>(pair)).getValue() << " = " << std::get<1>(pair);
        },
        ", ");
    return text;
  }
  // Tiles that warps write to their rings themselves are not shared.
  if (launch.getBody().walk([](GatherOp) { return WalkResult::interrupt(); }).wasInterrupted())
    return "tiles that are loaded, got ones of rows by index";
  // Neighbours may have other shifts.
  auto isShiftedLoop = [](LoopOp loop) {
    return getShiftedLoad(loop) ? WalkResult::interrupt() : WalkResult::advance();
  };
  if (launch.getBody().walk(isShiftedLoop).wasInterrupted())
    return "rows that start at multiples of 16 bytes, got some that boxes are shifted for";
  // Blocks of a cluster take the same steps.
  for (auto loop : launch.getBody().getOps<LoopOp>()) {
    if (!loop.getSteps())
      continue;
    auto isAlong = [&](Attribute name) { return cast<StringAttr>(name).getValue() == axis; };
    auto readsAlong = [&](Value number) {
      return llvm::any_of(number.getDefiningOp<ScalarOp>().getMap(), [&](Attribute axes) {
        return llvm::any_of(cast<ArrayAttr>(axes), isAlong);
      });
    };
    if (llvm::any_of(loop.getStepAxesAttr(), isAlong) ||
        llvm::any_of(loop.getStepValues(), readsAlong)) {
      stream << "loops whose steps are the same for neighbours along '" << axis << "', got "
             << "others for loop '" << loop.getAxis() << "'";
      return text;
    }
  }
  return std::nullopt;
}
