//===- RingEmitter.cpp - roles, and loops over rings ----------------------===//
//
// A launch of warpgroups:
//
//   rings: for each load outside of loops, with one slot; of loops, for the loads
//          whose tiles are needed at the same time
//   role of one warp:    for each loop, for each step: fill the rings' next slots
//   role of all others:  the body (RingLoop.cpp has its loops)
//
// If a block has several positions of the grid, both roles do this for each of
// them, one after the other. The steps of rings continue to count, so that the
// next tile's slots are filled while the results of this one are stored.
//
//===----------------------------------------------------------------------===//

#include "TileEmitter.h"

#include "mirage/Dialect/Block/Analysis/Clusters.h"
#include "mirage/Dialect/Block/Analysis/ProductPhases.h"
#include "mirage/Dialect/Block/Analysis/RegisterEstimate.h"
#include "mirage/Dialect/Block/Analysis/WarpgroupProducts.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

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
  launch.getBody().walk([&](Operation *op) {
    auto load = dyn_cast<block::LoadOp>(op);
    if (load && getShared(load.getResult()))
      add(block::getTensorMap(load), getShared(load.getResult()).getElementType());
    auto gather = dyn_cast<block::GatherOp>(op);
    if (gather && getShared(gather.getResult()) && block::isBoxOfRow(gather))
      add(block::getTensorMap(gather), getShared(gather.getResult()).getElementType());
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

/// Warps of the role that copies, if all of them copy.
static constexpr int64_t kWriters = 4;

void TileEmitter::createRings() {
  int64_t warps = launch.getSchedule()->getWarps();
  Block &body = launch.getBody().front();
  int64_t writers = block::hasWrittenTiles(launch) ? kWriters : 0;
  auto createRing = [&](ArrayRef<Operation *> reads, int64_t slots) -> Value {
    SmallVector<thread::SharedType> tiles;
    int64_t sharers = 1, rowBoxes = 0;
    bool loads = false, copies = false;
    for (Operation *read : reads) {
      tiles.push_back(getShared(read->getResult(0)).getSlotType());
      if (auto load = dyn_cast<block::LoadOp>(read)) {
        loads = true;
        sharers = std::max(sharers, block::getSharers(load));
      } else if (block::isBoxOfRow(cast<block::GatherOp>(read))) {
        ++rowBoxes;
      } else {
        copies = true;
      }
    }
    auto type = thread::RingType::get(launch.getContext(), slots, tiles);
    // Loaded tiles are filled together, but each box of a row separately.
    return thread::RingCreateOp::create(builder, reads.front()->getLoc(), type, warps, sharers,
                                        writers, copies, (loads ? 1 : 0) + rowBoxes);
  };
  for (auto loop : body.getOps<block::LoopOp>())
    if (loop->hasAttr(block::kTurns))
      turns[loop] = createTurns(turns.size());
  for (Operation &op : body)
    if (isa<block::LoadOp, block::GatherOp>(op) && getShared(op.getResult(0)))
      rings[&op] = {createRing(&op, 1)};
  for (auto loop : body.getOps<block::LoopOp>()) {
    block::ProductPhases phases(loop);
    for (const block::RingLoads &ring : phases.getRings())
      rings[loop].push_back(createRing(ring.loads, loop.getStages().value_or(1)));
  }
}

void TileEmitter::emitRole(int64_t first, int64_t count, int64_t barrier,
                           llvm::function_ref<void()> emitWork) {
  auto role =
      thread::WarpsOp::create(builder, loc, builder.getI64IntegerAttr(first),
                              builder.getI64IntegerAttr(count), builder.getI64IntegerAttr(barrier));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&role.getBody().emplaceBlock());
  emitWork();
  thread::EndOp::create(builder, loc);
}

/// Registers are moved between groups of four warps: from the one that copies, role 0,
/// to those that compute, role 1.
void TileEmitter::setMaxRegisters(int64_t role) {
  if (auto shares = launch->getAttrOfType<DenseI64ArrayAttr>(block::kRegisterShares))
    thread::SetMaxRegistersOp::create(builder, loc, shares[role], /*decrease=*/role == 0);
}

/// Tiles of loads and lookups outside of loops.
void TileEmitter::fillOutsideOfLoops() {
  for (Operation &op : launch.getBody().front())
    if (isa<block::LoadOp, block::GatherOp>(op) && rings.count(&op)) {
      findTableRows(&op, StringRef());
      emitFill(&op, rings[&op].front(), round ? round : index(0));
    }
}

/// The work of the copying warp comes after the change of registers, so that
/// the assembler knows their number. The other warps of its group are idle,
/// unless all of them write to each slot: otherwise they would wait for slots
/// whose reuse does not depend on them.
void TileEmitter::emitProducer() {
  auto fill = [&] {
    fillOutsideOfLoops();
    for (auto loop : launch.getBody().getOps<block::LoopOp>())
      emitFills(loop);
  };
  setMaxRegisters(0);
  if (block::hasWrittenTiles(launch)) {
    forEachPosition(fill);
    // No thread exits while its own copies are in flight.
    thread::CopyCommitOp::create(builder, loc);
    thread::CopyWaitOp::create(builder, loc, builder.getI64IntegerAttr(0));
    return;
  }
  if (!launch->hasAttr(block::kRegisterShares))
    return forEachPosition(fill);
  int64_t warps = launch.getSchedule()->getWarps();
  Value warp = gpu::SubgroupIdOp::create(builder, loc, builder.getIndexType(), IntegerAttr());
  Value copies =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, warp, index(warps + 1));
  auto branch = scf::IfOp::create(builder, loc, copies, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  forEachPosition(fill);
}

/// If groups of warps store separately, a block begins with the first group
/// some steps ahead of the last one, so that not all of them store at the same
/// time.
void TileEmitter::startApart() {
  Block &body = launch.getBody().front();
  int64_t groups = launch.getSchedule()->getWarps() / 4;
  auto store = cast<block::StoreOp>(body.getTerminator());
  bool apart = false;
  for (unsigned number = 0; number < launch->getNumResults(); ++number)
    if (std::optional<block::BoxStore> box = block::getBoxStore(store, number))
      apart |= box->byGroups;
  if (!launch.getSchedule()->getResident() || !apart)
    return;
  // The wait is for a slot that is certainly filled: a block takes all steps of
  // its first tile.
  block::LoopOp loop = *body.getOps<block::LoopOp>().begin();
  if (loop.getSteps())
    return;
  int64_t slots = cast<thread::RingType>(rings[loop].front().getType()).getSlots();
  // They are half of the ring apart: the other half is filled meanwhile.
  Value group = getGroup();
  Value isLater = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ugt, group, index(0));
  Value first = gpu::BlockIdOp::create(builder, loc, gpu::Dimension::x);
  Value hasTile = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, first,
                                        index(launch.getNumBlocks()));
  Value waits = arith::AndIOp::create(builder, loc, isLater, hasTile);
  auto branch = scf::IfOp::create(builder, loc, waits, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  Value step = arith::DivUIOp::create(builder, loc,
                                      arith::MulIOp::create(builder, loc, group, index(slots / 2)),
                                      index(groups - 1));
  thread::RingWaitOp::create(builder, loc, rings[loop].front(), step);
}

void TileEmitter::emitConsumers() {
  Block &body = launch.getBody().front();
  setMaxRegisters(1);
  startApart();
  forEachPosition([&] {
    emitBody(body);
    if (round)
      for (auto load : body.getOps<block::LoadOp>())
        if (rings.count(load))
          thread::RingReleaseOp::create(builder, loc, rings[load].front(), round);
  });
  // Stores must have read their data before the block ends.
  if (launch.getSchedule()->getResident())
    thread::BulkWaitOp::create(builder, loc, builder.getI64IntegerAttr(0), UnitAttr());
}

void TileEmitter::emitRoles() {
  constexpr int64_t readBarrier = 1, fillBarrier = 2;
  int64_t warps = launch.getSchedule()->getWarps();
  // The first copies would wait for these.
  for (Value map : tensorMaps)
    thread::PrefetchMapOp::create(builder, loc, map);
  if (launch.getSchedule()->getCluster() > 1)
    clusterRank = thread::ClusterRankOp::create(builder, loc);
  createRings();
  bool inGroup = launch->hasAttr(block::kRegisterShares) || block::hasWrittenTiles(launch);
  int64_t copying = inGroup ? kWriters : 1;
  emitRole(warps, copying, fillBarrier, [&] { emitProducer(); });
  emitRole(0, warps, readBarrier, [&] { emitConsumers(); });
}

/// A role's work at all positions of the block: its own number, and those that
/// follow at multiples of the number of blocks, whatever that is.
void TileEmitter::forEachPosition(llvm::function_ref<void()> emitWork) {
  if (!launch.getSchedule()->getResident())
    return emitWork();
  SmallVector<block::LoopOp> loops(launch.getBody().getOps<block::LoopOp>());
  SmallVector<Value> initial(loops.size() + 1, index(0));
  Value first = gpu::BlockIdOp::create(builder, loc, gpu::Dimension::x);
  Value blocks = gpu::GridDimOp::create(builder, loc, gpu::Dimension::x);
  auto positions =
      scf::ForOp::create(builder, loc, first, index(launch.getNumBlocks()), blocks, initial);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(positions.getBody());
  round = positions.getRegionIterArg(0);
  for (auto [number, loop] : llvm::enumerate(loops))
    stepsBefore[loop] = positions.getRegionIterArg(number + 1);
  startPosition(positions.getInductionVar());
  emitWork();
  SmallVector<Value> next = {arith::AddIOp::create(builder, loc, round, index(1))};
  for (block::LoopOp loop : loops)
    next.push_back(arith::AddIOp::create(builder, loc, stepsBefore[loop], stepsHere.lookup(loop)));
  scf::YieldOp::create(builder, loc, next);
}

/// The step of a loop's rings that is `step` at this position.
Value TileEmitter::getRingStep(Operation *loop, Value step) {
  Value before = stepsBefore.lookup(loop);
  return before ? arith::AddIOp::create(builder, loc, before, step).getResult() : step;
}

/// An mbarrier for each group of four warps, on which the group before arrives.
/// The barriers of the rings, which are created next, come before its use.
Value TileEmitter::createTurns(int64_t number) {
  int64_t groups = launch.getSchedule()->getWarps() / 4;
  auto type = thread::MbarrierType::get(launch.getContext(), groups);
  Value barriers = thread::MbarrierAllocOp::create(
      builder, loc, type, builder.getI64IntegerAttr(kBeyondRings + number * 8 * groups));
  thread::MbarrierInitOp::create(builder, loc, barriers, builder.getI64IntegerAttr(4));
  return barriers;
}

/// Number of the group of four warps, in the role that computes.
Value TileEmitter::getGroup() {
  Value warp = gpu::SubgroupIdOp::create(builder, loc, builder.getIndexType(), IntegerAttr());
  return arith::DivUIOp::create(builder, loc, warp, index(thread::kGroupThreads / 32));
}

/// Adds a loaded tile to the boxes of a fill.
void TileEmitter::addBox(block::LoadOp load, Boxes &boxes) {
  boxes.maps.push_back(getTensorMap(block::getTensorMap(load)));
  SmallVector<int64_t> shapes;
  for (int i = 0; i < 2; ++i)
    llvm::append_range(shapes, getTile(getMatrix(load)).getShape());
  SmallVector<Value> at =
      getTilePlace(tensors.lookup(load.getSource()), load.getMap(), load.getType(), shapes).offsets;
  if (int64_t sharers = block::getSharers(load); sharers > 1) {
    boxes.shared.push_back(int64_t(boxes.maps.size()) - 1);
    int64_t dim = block::getPartDim(load.getType());
    Value part = index(load.getType().getShape()[dim] / sharers);
    Value before = arith::MulIOp::create(builder, loc, clusterRank, part);
    at[dim] = arith::AddIOp::create(builder, loc, at[dim], before);
  }
  shiftBox(load, at);
  llvm::append_range(boxes.coordinates, at);
}

void TileEmitter::emitFill(ArrayRef<Operation *> reads, Value ring, Value step) {
  if (block::hasWrittenTiles(launch))
    return emitWrites(reads, ring, step);
  Boxes boxes;
  for (Operation *read : reads)
    addBox(cast<block::LoadOp>(read), boxes);
  DenseI64ArrayAttr numbers =
      boxes.shared.empty() ? nullptr : builder.getDenseI64ArrayAttr(boxes.shared);
  thread::RingFillOp::create(builder, reads.front()->getLoc(), ring, step, boxes.maps,
                             boxes.coordinates, numbers, DenseI64ArrayAttr());
}

/// The producer's part of a loop.
void TileEmitter::emitFills(block::LoopOp op) {
  extents[op.getAxis()] = op.getExtent();
  LoopSteps steps = getSteps(op);
  stepsHere[op] = steps.count;
  for (Operation &read : op.getBody().front())
    findTableRows(&read, op.getAxis());
  auto loop = scf::ForOp::create(builder, op.getLoc(), index(0), steps.count, index(1));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  position[op.getAxis()] =
      arith::AddIOp::create(builder, op.getLoc(), steps.first, loop.getInductionVar());
  block::ProductPhases phases(op);
  Value step = getRingStep(op, loop.getInductionVar());
  for (auto [loads, ring] : llvm::zip_equal(phases.getRings(), rings[op]))
    emitFill(loads.loads, ring, step);
}
