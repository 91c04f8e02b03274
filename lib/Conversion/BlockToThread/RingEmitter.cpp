//===- RingEmitter.cpp - roles, and loops over rings ----------------------===//
//
// A launch of warpgroups:
//
//   rings, one for each loop
//   role of one warp:    for each loop, for each step: fill the ring's next slot
//   role of all others:  the body; in loops, for each step:
//     wait for the slot
//     products from it
//     wait for the products of the step before; release its slot
//
//===----------------------------------------------------------------------===//

#include "TileEmitter.h"

#include "mirage/Dialect/Block/Transforms/WarpgroupProducts.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

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
  auto add = [&](kernel::TensorMapAttr map, Type elementType) {
    TensorMapParameter parameter{map, thread::TensorMapType::get(launch.getContext(), map.getBox(),
                                                                 elementType, map.getSwizzle())};
    if (!llvm::is_contained(found, parameter))
      found.push_back(parameter);
  };
  for (auto loop : launch.getBody().getOps<block::LoopOp>())
    for (block::LoadOp load : getStagedLoads(loop))
      add(block::getTensorMap(load), load.getType().getElementType());
  auto store = cast<block::StoreOp>(launch.getBody().front().getTerminator());
  for (unsigned number = 0; number < launch->getNumResults(); ++number)
    if (std::optional<block::BoxStore> box = block::getBoxStore(store, number))
      add(box->map, box->tile.getElementType());
  return found;
}

Value TileEmitter::getTensorMap(kernel::TensorMapAttr map) {
  for (auto [parameter, value] : llvm::zip_equal(getTensorMaps(launch), tensorMaps))
    if (parameter.map == map)
      return value;
  llvm_unreachable("getTensorMaps lists what rings and stores use");
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
    auto role = thread::WarpsOp::create(builder, loc, builder.getI64IntegerAttr(first),
                                        builder.getI64IntegerAttr(count),
                                        builder.getI64IntegerAttr(barrier));
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
  SmallVector<Value> maps, coordinates;
  for (block::LoadOp load : getStagedLoads(op)) {
    maps.push_back(getTensorMap(block::getTensorMap(load)));
    SmallVector<int64_t> shapes;
    for (int i = 0; i < 2; ++i)
      llvm::append_range(shapes, getTile(getMatrix(load)).getShape());
    llvm::append_range(coordinates, getTilePlace(tensors.lookup(load.getSource()), load.getMap(),
                                                 load.getType(), shapes)
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
  Value ring = rings[op];
  auto loop = scf::ForOp::create(builder, loc, index(0), index(op.getExtent()), index(1), initial);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    for (auto [result, value] : llvm::zip_equal(op.getResults(), loop.getRegionIterArgs()))
      accumulators[result] = value;
    Value step = loop.getInductionVar();
    position[op.getAxis()] = step;
    auto wait = thread::RingWaitOp::create(builder, loc, ring, step);
    for (auto [load, tile] : llvm::zip_equal(getStagedLoads(op), wait.getTiles()))
      sharedViews[load.getResult()] = {tile, false};
    emitBody(body);

    // The products of a step are one group. It stays under way until those of the
    // next step have started, so that the tensor cores do not run dry. With a
    // single slot nothing would come for the next step before this one is released.
    thread::WgmmaCommitOp::create(builder, loc);
    if (op.getStages().value_or(1) == 1) {
      SmallVector<Value> products;
      for (Value value : accumulate.getValues())
        products.push_back(get(value));
      auto done = thread::WgmmaWaitOp::create(builder, loc, TypeRange(ValueRange(products)),
                                              builder.getI64IntegerAttr(0), products);
      thread::RingReleaseOp::create(builder, loc, ring, step);
      scf::YieldOp::create(builder, loc, done.getResults());
      builder.setInsertionPointAfter(loop);
      for (auto [result, value] : llvm::zip_equal(op.getResults(), loop.getResults()))
        fragments[result] = value;
      return;
    }
    thread::WgmmaWaitOp::create(builder, loc, TypeRange(), builder.getI64IntegerAttr(1),
                                ValueRange());
    Value isLater = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ugt, step, index(0));
    auto release = scf::IfOp::create(builder, loc, isLater, /*withElseRegion=*/false);
    {
      OpBuilder::InsertionGuard inner(builder);
      builder.setInsertionPointToStart(release.thenBlock());
      Value previous = arith::SubIOp::create(builder, loc, step, index(1));
      thread::RingReleaseOp::create(builder, loc, ring, previous);
    }
    SmallVector<Value> next;
    emitAccumulate(accumulate, next);
    scf::YieldOp::create(builder, loc, next);
  }
  auto ready = thread::WgmmaWaitOp::create(builder, loc, loop.getResultTypes(),
                                           builder.getI64IntegerAttr(0), loop.getResults());
  thread::RingReleaseOp::create(builder, loc, ring, index(op.getExtent() - 1));
  for (auto [result, value] : llvm::zip_equal(op.getResults(), ready.getResults()))
    fragments[result] = value;
}

/// A result that leaves through shared memory: false where it does not.
bool TileEmitter::emitBoxStore(block::StoreOp op, unsigned number, Value fragment,
                               const TilePlace &place) {
  if (!launch.getSchedule()->usesWarpgroups())
    return false;
  std::optional<block::BoxStore> box = block::getBoxStore(op, number);
  if (!box)
    return false;
  int64_t offset = llvm::alignTo(allocated, box->tile.getAlignment());
  allocated = offset + box->tile.getTotalBytes();
  Value tile =
      thread::SharedAllocOp::create(builder, loc, box->tile, builder.getI64IntegerAttr(offset));
  thread::StoreSharedOp::create(builder, loc, fragment, tile, DenseI64ArrayAttr(), false);
  thread::FenceOp::create(builder, loc, thread::FenceKind::AsyncProxy);
  thread::BarrierOp::create(builder, loc);
  thread::TmaStoreOp::create(builder, loc, tile, getTensorMap(box->map), place.offsets);
  thread::BulkCommitOp::create(builder, loc);
  thread::BulkWaitOp::create(builder, loc, builder.getI64IntegerAttr(0), UnitAttr());
  return true;
}
