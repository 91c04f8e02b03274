//===- ThreadRingOps.cpp - verifiers of rings and of copies by tensor maps ===//

#include "Verifiers.h"

#include "mirage/Dialect/Thread/IR/Thread.h"

using namespace mlir;
using namespace mirage::thread;

/// A tile is moved panel by panel: the box is one panel (or, without a swizzle,
/// the whole tile), with leading dimensions of 1. With `parts` it has that part of the
/// rows, 0 being any part, in units that swizzles repeat after.
static LogicalResult verifyBox(Operation *op, TensorMapType map, SharedType tile,
                               size_t numCoordinates, int64_t parts = 1) {
  if (failed(verifySlot(op, tile)))
    return failure();
  ArrayRef<int64_t> box = map.getBox();
  if (numCoordinates != box.size())
    return op->emitOpError() << "expected " << box.size() << " coordinates, got " << numCoordinates;
  if (map.getElementType() != tile.getElementType() || map.getSwizzle() != tile.getSwizzle())
    return op->emitOpError() << "expected a tile of the element type and swizzle of " << map
                             << ", got " << tile;
  if (tile.getPad())
    return op->emitOpError() << "expected a tile without pad, got " << tile;
  int64_t rows = 1;
  for (int64_t extent : box.drop_back())
    rows *= extent;
  bool isPart = parts == 0 ? tile.getRows() % rows == 0 : tile.getRows() == rows * parts;
  if (parts != 1 && (!isPart || rows % kPartRows))
    return op->emitOpError() << "expected a box of "
                             << (parts ? "1/" + std::to_string(parts) : std::string("a part"))
                             << " of the tile's " << tile.getRows() << " rows, a multiple of "
                             << kPartRows << ", got " << map;
  if ((parts == 1 && rows != tile.getRows()) || tile.getCols() % box.back() ||
      (tile.getCols() != box.back() && box.back() * tile.getElementBytes() != tile.getSwizzle()))
    return op->emitOpError() << "expected a box of " << tile.getRows()
                             << " rows that is as wide as the tile or one of its panels, got "
                             << map;
  return success();
}

LogicalResult TmaLoadOp::verify() {
  return verifyBox(*this, getMap().getType(), getDest().getType(), getCoordinates().size(),
                   /*parts=*/getPart() ? 0 : 1);
}

LogicalResult TmaStoreOp::verify() {
  if (getGroup() && failed(getGroups(*this)))
    return failure();
  return verifyBox(*this, getMap().getType(), getSource().getType(), getCoordinates().size());
}

/// The number of blocks that every chip with clusters can run together.
static LogicalResult verifyCluster(Operation *op, int64_t blocks) {
  constexpr int64_t most = 8;
  if (blocks > most || !llvm::isPowerOf2_64(blocks))
    return op->emitOpError() << "expected a cluster of 1, 2, 4 or 8 blocks, got " << blocks;
  return success();
}

LogicalResult MbarrierArriveOp::verify() { return verifyCluster(*this, getCluster()); }

LogicalResult RingCreateOp::verify() {
  if (getFullArrivals() == 0)
    return emitOpError("expected writers or fills, got none, so that no slot would ever be full");
  return verifyCluster(*this, getCluster());
}

/// Checks that `numbers` are numbers of a ring's tiles.
static LogicalResult verifyTileNumbers(Operation *op, ArrayRef<int64_t> numbers, size_t tiles,
                                       StringRef which) {
  for (auto [place, number] : llvm::enumerate(numbers))
    if (number < 0 || number >= int64_t(tiles) || (place && number <= numbers[place - 1]))
      return op->emitOpError("expected ")
             << which << " tiles to be numbers from 0 to " << int64_t(tiles) - 1
             << " in increasing order, got " << numbers;
  return success();
}

/// Checks that a ring has writers, for an op that only they execute.
static LogicalResult verifyWriters(Operation *op, Value ring) {
  auto create = ring.getDefiningOp<RingCreateOp>();
  if (!create || create.getWriters() == 0)
    return op->emitOpError("expected a ring with writers, which fill its slots together");
  return success();
}

LogicalResult RingAcquireOp::verify() { return verifyWriters(*this, getRing()); }
LogicalResult RingPublishOp::verify() { return verifyWriters(*this, getRing()); }

LogicalResult RingFillOp::verify() {
  SmallVector<SharedType> tiles(getRing().getType().getTiles());
  ArrayRef<int64_t> shared = getShared().value_or(ArrayRef<int64_t>());
  auto ring = getRing().getDefiningOp<RingCreateOp>();
  if (std::optional<ArrayRef<int64_t>> into = getInto()) {
    if (failed(verifyWriters(*this, getRing())) ||
        failed(verifyTileNumbers(*this, *into, tiles.size(), "filled")))
      return failure();
    tiles = llvm::map_to_vector(*into, [&](int64_t number) { return tiles[number]; });
  } else if (ring && ring.getWriters()) {
    return emitOpError("expected the numbers of the tiles that it fills (into), for the ring has "
                       "writers");
  }
  if (!shared.empty() && (!ring || ring.getCluster() == 1))
    return emitOpError("expected a ring of a cluster of blocks, with which tiles are shared");
  if (failed(verifyTileNumbers(*this, shared, tiles.size(), "shared")))
    return failure();
  if (tiles.size() != getMaps().size())
    return emitOpError("expected ")
           << tiles.size() << " tensor maps, one for each tile, got " << getMaps().size();
  size_t wanted = 0;
  for (auto [number, value, tile] : llvm::enumerate(getMaps(), tiles)) {
    auto map = cast<TensorMapType>(value.getType());
    int64_t parts = llvm::is_contained(shared, int64_t(number)) ? ring.getCluster() : 1;
    if (failed(verifyBox(*this, map, tile, map.getBox().size(), parts)))
      return failure();
    wanted += map.getBox().size();
  }
  if (wanted != getCoordinates().size())
    return emitOpError("expected ")
           << wanted << " coordinates, those of all maps, got " << getCoordinates().size();
  return success();
}

/// The tiles of a slot.
static LogicalResult inferTiles(Value value, SmallVectorImpl<Type> &types) {
  auto ring = dyn_cast<RingType>(value.getType());
  if (!ring)
    return failure();
  llvm::append_range(types, ring.getTiles());
  return success();
}

LogicalResult RingWaitOp::inferReturnTypes(MLIRContext *, std::optional<Location>, Adaptor adaptor,
                                           SmallVectorImpl<Type> &types) {
  return inferTiles(adaptor.getRing(), types);
}

LogicalResult RingAcquireOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                              Adaptor adaptor, SmallVectorImpl<Type> &types) {
  return inferTiles(adaptor.getRing(), types);
}
