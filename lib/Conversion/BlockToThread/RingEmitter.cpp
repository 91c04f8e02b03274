//===- RingEmitter.cpp - roles, and loops over rings ----------------------===//
//
// A launch of warpgroups:
//
//   rings, one for each loop
//   role of one warp:    for each loop, for each step: fill the ring's next slot
//   role of all others:  the body; in loops, for each step:
//     wait for the slot
//     products from it, in flight together; wait for them
//     release the slot
//
//===----------------------------------------------------------------------===//

#include "TileEmitter.h"

#include "mirage/Dialect/Block/Transforms/WarpgroupProducts.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mirage;
using block::getMatrix;
using block::getShared;
using block::getStagedLoads;
using block::getTile;
using thread::FragmentType;

SmallVector<TensorMapParameter> mirage::getTensorMaps(kernel::LaunchOp launch) {
  SmallVector<TensorMapParameter> found;
  if (!launch.getSchedule()->usesWarpgroups())
    return found;
  for (auto loop : launch.getBody().getOps<block::LoopOp>())
    for (block::LoadOp load : getStagedLoads(loop)) {
      kernel::TensorMapAttr map = block::getTensorMap(load);
      auto type = thread::TensorMapType::get(load.getContext(), map.getBox(),
                                             load.getType().getElementType(), map.getSwizzle());
      TensorMapParameter parameter{map, type};
      if (!llvm::is_contained(found, parameter))
        found.push_back(parameter);
    }
  return found;
}

void TileEmitter::emitRoles() {
  constexpr int64_t readBarrier = 1, fillBarrier = 2;
  int64_t warps = launch.getSchedule()->getWarps();
  Block &body = launch.getBody().front();
  SmallVector<block::LoopOp> loops(body.getOps<block::LoopOp>());
  for (block::LoopOp loop : loops) {
    SmallVector<thread::SharedType> tiles;
    for (block::LoadOp load : getStagedLoads(loop))
      tiles.push_back(getShared(load.getResult()).getSlotType());
    auto type = thread::RingType::get(loop.getContext(), loop.getStages().value_or(1), tiles);
    rings[loop] = thread::RingCreateOp::create(builder, loop.getLoc(), type,
                                               builder.getI64IntegerAttr(warps));
  }
  auto emitRole = [&](int64_t first, int64_t count, int64_t barrier, auto emitWork) {
    auto role =
        thread::WarpsOp::create(builder, loc, builder.getI64IntegerAttr(first),
                                builder.getI64IntegerAttr(count), builder.getI64IntegerAttr(barrier));
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&role.getBody().emplaceBlock());
    emitWork();
    thread::EndOp::create(builder, loc);
  };
  emitRole(warps, 1, fillBarrier, [&] {
    for (block::LoopOp loop : loops)
      emitFills(loop);
  });
  emitRole(0, warps, readBarrier, [&] { emitBody(body); });
}

/// The producer's part of a loop.
void TileEmitter::emitFills(block::LoopOp op) {
  extents[op.getAxis()] = op.getExtent();
  auto loop = scf::ForOp::create(builder, op.getLoc(), index(0), index(op.getExtent()), index(1));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  position[op.getAxis()] = loop.getInductionVar();
  SmallVector<TensorMapParameter> parameters = getTensorMaps(launch);
  SmallVector<Value> maps, coordinates;
  for (block::LoadOp load : getStagedLoads(op)) {
    const auto *parameter = llvm::find_if(parameters, [&](const TensorMapParameter &candidate) {
      return candidate.map == block::getTensorMap(load);
    });
    maps.push_back(tensorMaps[parameter - parameters.begin()]);
    SmallVector<int64_t> shapes;
    for (int i = 0; i < 2; ++i)
      llvm::append_range(shapes, getTile(getMatrix(load)).getShape());
    llvm::append_range(
        coordinates,
        getTilePlace(tensors.lookup(load.getSource()), load.getMap(), load.getType(), shapes)
            .offsets);
  }
  thread::RingFillOp::create(builder, op.getLoc(), rings[op], loop.getInductionVar(), maps,
                             coordinates);
}

/// The readers' part.
void TileEmitter::emitRingLoop(block::LoopOp op) {
  Block &body = op.getBody().front();
  auto accumulate = cast<block::AccumulateOp>(body.getTerminator());
  if (!pendingGroup.empty())
    waitForAllCopies();
  SmallVector<Value> initial;
  for (Value result : op.getResults())
    initial.push_back(constant(typeOf(result), 0));
  auto loop =
      scf::ForOp::create(builder, loc, index(0), index(op.getExtent()), index(1), initial);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  for (auto [result, value] : llvm::zip_equal(op.getResults(), loop.getRegionIterArgs()))
    accumulators[result] = value;
  Value ring = rings[op], step = loop.getInductionVar();
  position[op.getAxis()] = step;
  auto wait = thread::RingWaitOp::create(builder, loc, ring, step);
  for (auto [load, tile] : llvm::zip_equal(getStagedLoads(op), wait.getTiles()))
    sharedViews[load.getResult()] = {tile, false};
  emitBody(body);

  // The products of a step are one group.
  SmallVector<Value> products;
  for (auto matmul : body.getOps<block::MatmulOp>())
    products.push_back(get(matmul.getResult()));
  thread::WgmmaCommitOp::create(builder, loc);
  auto ready = thread::WgmmaWaitOp::create(builder, loc, TypeRange(ValueRange(products)),
                                           builder.getI64IntegerAttr(0), products);
  for (auto [matmul, value] : llvm::zip_equal(body.getOps<block::MatmulOp>(), ready.getResults()))
    fragments[matmul.getResult()] = value;
  thread::RingReleaseOp::create(builder, loc, ring, step);
  SmallVector<Value> next;
  emitAccumulate(accumulate, next);
  scf::YieldOp::create(builder, loc, next);
  for (auto [result, value] : llvm::zip_equal(op.getResults(), loop.getResults()))
    fragments[result] = value;
}
