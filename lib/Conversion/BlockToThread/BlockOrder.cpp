//===- BlockOrder.cpp - which block works on which tile -------------------===//
//
// The hardware starts blocks in the order of their numbers, each when another
// one has ended. The order determines which blocks run at the same time, and
// therefore what they find in L2, and which ones run last.
//
//===----------------------------------------------------------------------===//

#include "TileEmitter.h"

#include "mirage/Dialect/Block/Analysis/Clusters.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/DenseSet.h"

#include <algorithm>
#include <numeric>

using namespace mlir;
using namespace mirage;

/// About 16 x 8 tiles of 128 x 256 run at a time.
static constexpr int64_t groupRows = 16;
/// The fewest parts of a grid whose number of rows is known only at the launch:
/// all blocks of a part that has a row are started.
static constexpr int64_t sizedParts = 8;
/// The bytes that L2 keeps while they are read repeatedly.
static constexpr int64_t keptBytes = int64_t(32) << 20;
/// Blocks that take this many times as many steps as all do on average make a tail.
static constexpr double unevenSteps = 1.25;

void TileEmitter::setPositions(Value number) {
  for (auto [name, extent] :
       llvm::zip_equal(launch.getGridNames().getValue(), launch.getGridExtents()))
    extents[cast<StringAttr>(name).getValue()] = extent;
  SmallVector<StringRef> axes;
  for (Attribute name : launch.getGridNames().getValue())
    axes.push_back(cast<StringAttr>(name).getValue());
  // Blocks of a cluster have consecutive numbers, and count as one place in the
  // order.
  int64_t cluster = launch.getSchedule()->getCluster();
  StringRef shared = cluster > 1 ? block::getClusterAxis(launch, cluster) : StringRef();
  Value rank;
  if (!shared.empty()) {
    rank = arith::RemUIOp::create(builder, loc, number, index(cluster));
    number = arith::DivUIOp::create(builder, loc, number, index(cluster));
    extents[shared] /= cluster;
  }
  block::LoopOp uneven = findUnevenLoop();
  if (uneven && uneven.getStepAxesAttr().size() < axes.size())
    splitByWork(number, axes, uneven);
  else if (sharesTiles(launch))
    splitInSquares(number, axes);
  else
    split(number, withLookupsFastest(axes));
  if (rank) {
    extents[shared] *= cluster;
    Value first = arith::MulIOp::create(builder, loc, position[shared], index(cluster));
    position[shared] = arith::AddIOp::create(builder, loc, first, rank);
  }
  startWithMostSteps();
}

std::pair<StringRef, int64_t> TileEmitter::getSlowestAxis(kernel::LaunchOp launch) {
  bool isReordered = launch.getBody()
                         .walk([](block::LoopOp loop) {
                           return loop.getSteps() ? WalkResult::interrupt() : WalkResult::advance();
                         })
                         .wasInterrupted();
  if (launch.getSchedule()->getResident() || launch.getSchedule()->getCluster() > 1 || isReordered)
    return {};
  auto getExtent = [&](Attribute name) {
    return *launch.getGridExtent(cast<StringAttr>(name).getValue());
  };
  auto names = launch.getGridNames().getValue();
  for (auto [place, name] : llvm::enumerate(names)) {
    int64_t extent = getExtent(name);
    if (extent == 1)
      continue;
    StringRef axis = cast<StringAttr>(name).getValue();
    bool isInSquares = place + 2 >= names.size() && sharesTiles(launch) &&
                       getExtent(names[names.size() - 2]) > 1 && getExtent(names.back()) > 1;
    return {axis, isInSquares ? getGroupHeight(extent, /*isSized=*/true) : 1};
  }
  return {};
}

/// The first loop that skips steps, if it is known that blocks take different
/// numbers of steps.
block::LoopOp TileEmitter::findUnevenLoop() {
  block::LoopOp found;
  launch.getBody().walk([&](block::LoopOp loop) {
    if (loop.getSteps() && !loop.hasStepsAtRunTime() && !found)
      found = loop;
  });
  if (!found)
    return {};
  SmallVector<int64_t> sizes;
  for (Attribute axis : found.getStepAxesAttr())
    sizes.push_back(extents.lookup(cast<StringAttr>(axis).getValue()));
  int64_t places = std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
  int64_t total = 0, most = 0;
  for (int64_t place = 0; place < places; ++place) {
    SmallVector<int64_t> at;
    int64_t rest = place;
    for (int64_t size : sizes) {
      at.push_back(rest % size);
      rest /= size;
    }
    auto [first, end] = found.getStepRange(at);
    total += end - first;
    most = std::max(most, end - first);
  }
  return double(most) * double(places) > unevenSteps * double(total) ? found : block::LoopOp();
}

/// Whether each block looks up one row of a table, of which it reads all or one
/// piece that is contiguous in memory, such as some rows of an expert's matrix.
/// Adds the axes of its indices, and those that divide the row.
static bool addLookup(block::GatherOp gather, llvm::SmallDenseSet<StringRef> &indices,
                      llvm::SmallDenseSet<StringRef> &pieces) {
  size_t rank = cast<RankedTensorType>(gather.getIndices().getType()).getRank();
  auto launch = gather->getParentOfType<kernel::LaunchOp>();
  ArrayRef<int64_t> tile = block::getTile(gather.getResult()).getShape();
  bool isOne = llvm::all_of(tile.take_front(rank), [](int64_t size) { return size == 1; });
  SmallVector<StringRef> ofIndices, ofRow;
  for (auto [dim, cuts] : llvm::enumerate(gather.getMap()))
    for (Attribute axis : cast<ArrayAttr>(cuts)) {
      StringRef name = cast<StringAttr>(axis).getValue();
      if (!launch.getGridExtent(name))
        continue; // of a loop
      if (!isOne || dim > rank)
        return false;
      (dim < rank ? ofIndices : ofRow).push_back(name);
    }
  indices.insert(ofIndices.begin(), ofIndices.end());
  pieces.insert(ofRow.begin(), ofRow.end());
  return !ofIndices.empty() && !ofRow.empty();
}

/// The axes such that blocks which may look up the same piece of a row, for
/// instance of the matrix of one expert that several tokens chose, run at the
/// same time: it is read from device memory once, and from L2 by the others. For
/// that, the axes of the indices are the fastest digits.
SmallVector<StringRef> TileEmitter::withLookupsFastest(ArrayRef<StringRef> axes) {
  SmallVector<StringRef> ordered(axes);
  llvm::SmallDenseSet<StringRef> indices, pieces;
  bool isDivided = false;
  launch.getBody().walk(
      [&](block::GatherOp gather) { isDivided |= addLookup(gather, indices, pieces); });
  if (isDivided && !isSized) // of a sized grid, the blocks of the first rows come first
    std::stable_partition(ordered.begin(), ordered.end(), [&](StringRef axis) {
      return !indices.contains(axis) || pieces.contains(axis);
    });
  return ordered;
}

/// Splits a number into positions along axes; the first axis is the most
/// significant digit.
void TileEmitter::split(Value number, ArrayRef<StringRef> axes) {
  for (size_t left = axes.size(); left > 0; --left) {
    StringRef axis = axes[left - 1];
    Value size = index(extents.lookup(axis));
    position[axis] =
        left == 1 ? number : arith::RemUIOp::create(builder, loc, number, size).getResult();
    if (left > 1)
      number = arith::DivUIOp::create(builder, loc, number, size);
  }
}

/// All blocks with many steps come before those with fewer, for all positions
/// along the other axes: otherwise, the last of these positions would still
/// have long blocks when the others are done. Only as many of the other
/// positions take part at a time as L2 can keep the tiles of.
void TileEmitter::splitByWork(Value number, ArrayRef<StringRef> axes, block::LoopOp uneven) {
  SmallVector<StringRef> ordered, others;
  int64_t places = 1, rest = 1;
  for (StringRef axis : axes) {
    bool isOrdered =
        llvm::is_contained(uneven.getStepAxesAttr(), StringAttr::get(launch.getContext(), axis));
    (isOrdered ? ordered : others).push_back(axis);
    (isOrdered ? places : rest) *= extents.lookup(axis);
  }
  int64_t bytes = 0;
  uneven.getBody().walk([&](block::LoadOp load) {
    auto tensor = cast<RankedTensorType>(load.getSource().getType());
    int64_t size = tensor.getNumElements() * tensor.getElementTypeBitWidth() / 8;
    for (Attribute dim : load.getMap())
      for (Attribute axis : cast<ArrayAttr>(dim))
        if (StringRef name = cast<StringAttr>(axis).getValue(); llvm::is_contained(others, name))
          size /= extents.lookup(name);
    bytes += size;
  });
  int64_t group = std::clamp<int64_t>(keptBytes / std::max<int64_t>(bytes, 1), 1, rest);
  while (rest % group)
    --group;
  auto divide = [&](Value value, int64_t by) -> Value {
    return arith::DivUIOp::create(builder, loc, value, index(by));
  };
  auto remainder = [&](Value value, int64_t by) -> Value {
    return arith::RemUIOp::create(builder, loc, value, index(by));
  };
  Value other = remainder(number, group), place = divide(number, group);
  if (group < rest) {
    Value first = arith::MulIOp::create(builder, loc, divide(place, places), index(group));
    other = arith::AddIOp::create(builder, loc, first, other);
    place = remainder(place, places);
  }
  split(other, others);
  split(place, ordered);
}

/// Blocks that run at the same time form nearly a square of the last two axes;
/// its tiles share more data in L2 than those of a row. Rows of the square come
/// in groups, within which they are the fastest digit.
void TileEmitter::splitInSquares(Value number, ArrayRef<StringRef> axes) {
  int64_t rows = extents.lookup(axes[axes.size() - 2]), cols = extents.lookup(axes.back());
  if (rows == 1 || cols == 1)
    return split(number, axes);
  auto divide = [&](Value value, Value by) -> Value {
    return arith::DivUIOp::create(builder, loc, value, by);
  };
  auto remainder = [&](Value value, Value by) -> Value {
    return arith::RemUIOp::create(builder, loc, value, by);
  };
  Value plane = number;
  if (axes.size() > 2) {
    plane = remainder(number, index(rows * cols));
    split(divide(number, index(rows * cols)), axes.drop_back(2));
  }
  bool isFirst =
      llvm::all_of(axes.drop_back(2), [&](StringRef axis) { return extents.lookup(axis) == 1; });
  // Several blocks of a cluster, which are one place here, may be in a column.
  int64_t together = *launch.getGridExtent(axes[axes.size() - 2]) / rows;
  int64_t height =
      std::max<int64_t>(getGroupHeight(rows * together, isSized && isFirst) / together, 1);
  Value group = divide(plane, index(height * cols));
  Value within = remainder(plane, index(height * cols));
  Value first = arith::MulIOp::create(builder, loc, group, index(height));
  // The last group may be lower.
  Value heightHere = index(height);
  if (rows % height)
    heightHere = arith::MinUIOp::create(builder, loc, heightHere,
                                        arith::SubIOp::create(builder, loc, index(rows), first));
  position[axes[axes.size() - 2]] =
      arith::AddIOp::create(builder, loc, first, remainder(within, heightHere));
  position[axes.back()] = divide(within, heightHere);
}

/// Rows of a square. If the number of rows is known only at the launch, there
/// are several groups, which are equal parts of the grid.
int64_t TileEmitter::getGroupHeight(int64_t rows, bool isSized) {
  if (!isSized)
    return std::min(groupRows, rows);
  int64_t height = std::clamp<int64_t>(rows / sizedParts, 1, groupRows);
  while (rows % height)
    --height;
  return height;
}

static bool isCutAlong(ArrayRef<Attribute> map, Attribute axis) {
  return llvm::any_of(
      map, [&](Attribute axes) { return llvm::is_contained(cast<ArrayAttr>(axes), axis); });
}

/// Whether blocks along an axis read the same tile. Blocks that each look up
/// one row of a table, such as an expert's matrix, often name the same row as
/// their neighbours.
static bool isSharedAlong(Operation *read, Attribute axis) {
  if (auto load = dyn_cast<block::LoadOp>(read))
    return !isCutAlong(load.getMap().getValue(), axis);
  auto gather = dyn_cast<block::GatherOp>(read);
  if (!gather)
    return false;
  ArrayRef<Attribute> map = gather.getMap().getValue();
  size_t rank = cast<RankedTensorType>(gather.getIndices().getType()).getRank();
  return !isCutAlong(block::isBoxOfRow(gather) ? map.drop_front(rank) : map, axis);
}

/// Whether loops load tiles that blocks share along one of the last two axes of
/// the grid, and tiles that blocks share along the other one.
bool TileEmitter::sharesTiles(kernel::LaunchOp launch) {
  auto names = launch.getGridNames().getValue();
  if (!launch.getSchedule()->usesWarpgroups() || names.size() < 2)
    return false;
  auto isShared = [&](Attribute axis) {
    return launch.getBody()
        .walk([&](Operation *op) {
          bool isShared = op->getParentOp() != launch && isSharedAlong(op, axis);
          return isShared ? WalkResult::interrupt() : WalkResult::advance();
        })
        .wasInterrupted();
  };
  return isShared(names.back()) && isShared(names[names.size() - 2]);
}

/// Blocks that take more steps of a loop than others start before them, so that
/// the last ones to run are short: an axis along which the steps grow is
/// traversed backwards.
void TileEmitter::startWithMostSteps() {
  launch.getBody().walk([&](block::LoopOp loop) {
    if (!loop.getSteps() || loop.hasStepsAtRunTime())
      return WalkResult::advance();
    auto axes = loop.getStepAxesAttr().getValue();
    for (auto [number, axis] : llvm::enumerate(axes)) {
      StringRef name = cast<StringAttr>(axis).getValue();
      SmallVector<int64_t> at(axes.size(), 0);
      auto count = [&, number = number](int64_t place) {
        at[number] = place;
        auto [first, end] = loop.getStepRange(at);
        return end - first;
      };
      int64_t last = *launch.getGridExtent(name) - 1;
      if (count(last) > count(0))
        position[name] = arith::SubIOp::create(builder, loc, index(last), position[name]);
    }
    return WalkResult::interrupt();
  });
}
