//===- HeldTile.cpp - where and how a tile is held ------------------------===//

#include "mirage/Dialect/Block/Analysis/HeldTile.h"

using namespace mlir;
using namespace mirage;
using namespace mirage::block;

bool mirage::block::isMatrixOf(ReshapeOp reshape, Value loaded) {
  return reshape.getInput() == loaded && reshape.getType().getRank() == 2;
}

Value mirage::block::getMatrix(Value loaded) {
  for (Operation *user : loaded.getUsers())
    if (auto reshape = dyn_cast<ReshapeOp>(user); reshape && isMatrixOf(reshape, loaded))
      return reshape.getResult();
  return loaded;
}

llvm::LogicalResult mirage::block::checkLayouts(kernel::LaunchOp launch) {
  WalkResult walk = launch.getBody().walk([](Operation *op) {
    for (Value value : op->getResults())
      if (isa<TileType>(value.getType()) && !isScalar(value) && !getHolder(getTile(value))) {
        op->emitOpError("expected a layout (mirage-assign-layouts), got ") << value.getType();
        return WalkResult::interrupt();
      }
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

int64_t mirage::block::getTripCount(Block *block) {
  int64_t trips = 1;
  for (Operation *parent = block->getParentOp(); parent; parent = parent->getParentOp())
    if (auto loop = dyn_cast<LoopOp>(parent))
      trips *= loop.getExtent();
  return trips;
}
