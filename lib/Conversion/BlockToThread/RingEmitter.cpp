//===- RingEmitter.cpp - roles, and loops over rings ----------------------===//
//
// A launch of warpgroups:
//
//   rings: for each load outside of loops, with one slot; of loops, for the loads
//          whose tiles are needed at the same time
//   role of one warp:    for each loop, for each step: fill the rings' next slots
//   role of all others:  the body (RingLoop.cpp has its loops)
//
//===----------------------------------------------------------------------===//

#include "TileEmitter.h"

#include "mirage/Dialect/Block/Transforms/ProductPhases.h"
#include "mirage/Dialect/Block/Transforms/RegisterEstimate.h"
#include "mirage/Dialect/Block/Transforms/WarpgroupProducts.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mirage;
using block::getMatrix;
using block::getShared;
using block::getTile;

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
  launch.getBody().walk([&](block::LoadOp load) {
    if (getShared(load.getResult()))
      add(block::getTensorMap(load), load.getType().getElementType());
  });
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
  auto createRing = [&](ArrayRef<block::LoadOp> loads, int64_t slots) -> Value {
    SmallVector<thread::SharedType> tiles;
    for (block::LoadOp load : loads)
      tiles.push_back(getShared(load.getResult()).getSlotType());
    auto type = thread::RingType::get(launch.getContext(), slots, tiles);
    Location at = loads.front()->getLoc();
    return thread::RingCreateOp::create(builder, at, type, builder.getI64IntegerAttr(warps));
  };
  for (auto loop : body.getOps<block::LoopOp>())
    if (loop->hasAttr(block::kTurns))
      turns[loop] = createTurns(turns.size());
  for (auto load : body.getOps<block::LoadOp>())
    if (getShared(load.getResult()))
      rings[load] = {createRing(load, 1)};
  for (auto loop : body.getOps<block::LoopOp>()) {
    block::ProductPhases phases(loop);
    for (const block::RingLoads &ring : phases.getRings())
      rings[loop].push_back(createRing(ring.loads, loop.getStages().value_or(1)));
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
  // Registers are moved between groups of four warps.
  auto shares = launch->getAttrOfType<DenseI64ArrayAttr>(block::kRegisterShares);
  auto setRegisters = [&](int64_t index) {
    if (shares)
      thread::SetMaxRegistersOp::create(builder, loc, shares[index], /*decrease=*/index == 0);
  };
  auto fill = [&] {
    for (auto load : body.getOps<block::LoadOp>())
      if (rings.count(load))
        emitFill(load, rings[load].front(), index(0));
    for (auto loop : body.getOps<block::LoopOp>())
      emitFills(loop);
  };
  // What the copying warp does stands behind the change, so that the assembler
  // knows how many registers there are. The other warps of its group are idle:
  // they would wait for slots that nothing of theirs keeps from being used again.
  emitRole(warps, shares ? 4 : 1, fillBarrier, [&] {
    setRegisters(0);
    if (!shares)
      return fill();
    Value thread = gpu::ThreadIdOp::create(builder, loc, gpu::Dimension::x);
    Value copies = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, thread,
                                         index(32 * (warps + 1)));
    auto branch = scf::IfOp::create(builder, loc, copies, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    fill();
  });
  emitRole(0, warps, readBarrier, [&] {
    setRegisters(1);
    emitBody(body);
  });
}

/// An mbarrier for each group of four warps, on which the group before arrives.
/// The barriers of the rings, which are created next, come before its use.
Value TileEmitter::createTurns(int64_t number) {
  // Any offset that no ring has, for equal allocations would count as one; they
  // are planned later.
  constexpr int64_t beyond = int64_t(1) << 20;
  int64_t groups = launch.getSchedule()->getWarps() / 4;
  auto type = thread::MbarrierType::get(launch.getContext(), groups);
  Value barriers = thread::MbarrierAllocOp::create(
      builder, loc, type, builder.getI64IntegerAttr(beyond + number * 8 * groups));
  thread::MbarrierInitOp::create(builder, loc, barriers, builder.getI64IntegerAttr(4));
  return barriers;
}

void TileEmitter::emitFill(ArrayRef<block::LoadOp> loads, Value ring, Value step) {
  SmallVector<Value> maps, coordinates;
  for (block::LoadOp load : loads) {
    maps.push_back(getTensorMap(block::getTensorMap(load)));
    SmallVector<int64_t> shapes;
    for (int i = 0; i < 2; ++i)
      llvm::append_range(shapes, getTile(getMatrix(load)).getShape());
    llvm::append_range(coordinates, getTilePlace(tensors.lookup(load.getSource()), load.getMap(),
                                                 load.getType(), shapes)
                                        .offsets);
  }
  thread::RingFillOp::create(builder, loads.front()->getLoc(), ring, step, maps, coordinates);
}

/// The producer's part of a loop.
void TileEmitter::emitFills(block::LoopOp op) {
  extents[op.getAxis()] = op.getExtent();
  LoopSteps steps = getSteps(op);
  auto loop = scf::ForOp::create(builder, op.getLoc(), index(0), steps.count, index(1));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  position[op.getAxis()] =
      arith::AddIOp::create(builder, op.getLoc(), steps.first, loop.getInductionVar());
  block::ProductPhases phases(op);
  for (auto [loads, ring] : llvm::zip_equal(phases.getRings(), rings[op]))
    emitFill(loads.loads, ring, loop.getInductionVar());
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
