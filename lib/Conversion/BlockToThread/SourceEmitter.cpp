//===- SourceEmitter.cpp - what is found where it is needed -------------===//

#include "TileEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mirage;
using block::getMatrix;
using block::getTile;
using block::TileType;

void TileEmitter::emitIota(block::IotaOp op) {
  int64_t parts = 1, size = getTile(op.getResult()).getShape()[op.getDim()];
  Value offset = getPart(op.getAxes(), parts);
  if (parts > 1)
    offset = arith::MulIOp::create(builder, loc, offset, index(size));
  FragmentType type = typeOf(op.getResult());
  Value positions = thread::IotaOp::create(builder, loc, type, op.getDimAttr(), offset);
  // Beyond the end a load would read zeros.
  if (parts * size != int64_t(op.getExtent()))
    positions = thread::MaskOp::create(builder, loc, type, positions, op.getDimAttr(), offset,
                                       op.getExtentAttr(), builder.getF64FloatAttr(0));
  fragments[op.getResult()] = positions;
}

/// The place of the tile in the tensor that the lookup represents.
TilePlace TileEmitter::getGatheredPlace(block::GatherOp op, int64_t rows, int64_t cols) {
  RankedTensorType gathered = op.getGatheredType();
  auto stands = MemRefType::get(gathered.getShape(), gathered.getElementType());
  SmallVector<int64_t> shapes(getTile(getMatrix(op.getResult())).getShape());
  llvm::append_range(shapes, ArrayRef<int64_t>{rows, cols});
  return getTilePlace(tensors.lookup(op.getTable()), stands, op.getMap(),
                      cast<TileType>(op.getResult().getType()), shapes);
}

void TileEmitter::emitGather(block::GatherOp op) {
  if (thread::SharedType shared = block::getShared(op.getResult())) {
    // Those of a loop with stages are emitted by the loop.
    if (shared.isRing())
      return;
    return rings.count(op) ? waitForTile(op) : beginCopy(op);
  }
  FragmentType type = typeOf(op.getResult());
  TilePlace tile = getGatheredPlace(op, type.getRows(), type.getCols());
  fragments[op.getResult()] = thread::GatherGlobalOp::create(
      builder, loc, type, tile.tensor, tensors.lookup(op.getIndices()), tile.offsets,
      builder.getI64IntegerAttr(cast<RankedTensorType>(op.getIndices().getType()).getRank()),
      builder.getDenseI64ArrayAttr(tile.dims),
      DenseBoolArrayAttr::get(builder.getContext(), tile.inBounds),
      tile.extents.empty() ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(tile.extents),
      op.getFromEndAttr());
}

void TileEmitter::gatherToShared(block::GatherOp op, Value slot, Value when, Value indices) {
  auto holder = cast<thread::SharedType>(slot.getType());
  TilePlace tile = getGatheredPlace(op, holder.getRows(), holder.getCols());
  thread::GatherAsyncOp::create(
      builder, loc, tile.tensor, tensors.lookup(op.getIndices()), tile.offsets,
      builder.getI64IntegerAttr(cast<RankedTensorType>(op.getIndices().getType()).getRank()),
      builder.getDenseI64ArrayAttr(tile.dims),
      DenseBoolArrayAttr::get(builder.getContext(), tile.inBounds),
      tile.extents.empty() ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(tile.extents), slot,
      when, indices, op.getFromEndAttr());
}

//===----------------------------------------------------------------------===//
// Indices that are read ahead of their rows
//===----------------------------------------------------------------------===//

Value StagedLoop::getIndices(Operation *load) const {
  for (const Ahead &read : ahead)
    if (llvm::is_contained(read.lookups, load))
      return read.indices;
  return Value();
}

/// The most warps of a block, and indices of a thread, for reading ahead:
/// indices stay in registers during a step, and with more warps there are fewer
/// registers.
static constexpr int64_t kMostWarpsAhead = 8, kMostAhead = 8;

/// Finds the lookups whose rows a thread would otherwise request one latency
/// after their indices, at each step, while all warps wait for it.
void TileEmitter::findLookupsAhead(StagedLoop &loop) {
  int64_t warps = launch.getSchedule()->getWarps();
  if (!loop.rotates() || warps > kMostWarpsAhead)
    return;
  for (auto [load, ring] : loop.loads) {
    auto op = dyn_cast<block::GatherOp>(load);
    if (!op)
      continue;
    int64_t rank = cast<RankedTensorType>(op.getIndices().getType()).getRank(), rows = 1;
    for (int64_t size : cast<TileType>(op.getResult().getType()).getShape().take_front(rank))
      rows *= size;
    auto tile = cast<thread::SharedType>(ring.getType()).getSlotType();
    if (rows == 1 || thread::ReadIndicesOp::countPieces(tile, 32 * warps) > kMostAhead)
      continue;
    auto isSame = [&](const StagedLoop::Ahead &other) {
      block::GatherOp known = other.lookups.front();
      return known.getIndices() == op.getIndices() && known.getMap() == op.getMap() &&
             known.getTable().getType() == op.getTable().getType() &&
             known.getResult().getType() == op.getResult().getType();
    };
    if (auto *known = llvm::find_if(loop.ahead, isSame); known != loop.ahead.end())
      known->lookups.push_back(op);
    else
      loop.ahead.push_back({{op}, Value()});
  }
}

/// Reads the indices of the rows of `step`, if the block takes it.
void TileEmitter::readIndicesAhead(StagedLoop &loop, Value step) {
  position[loop.op.getAxis()] = step;
  Value exists =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, step, loop.steps.end);
  for (StagedLoop::Ahead &read : loop.ahead) {
    block::GatherOp op = read.lookups.front();
    auto holder = block::getShared(op.getResult()).getSlotType();
    TilePlace tile = getGatheredPlace(op, holder.getRows(), holder.getCols());
    auto indices = cast<RankedTensorType>(op.getIndices().getType());
    int64_t count =
        thread::ReadIndicesOp::countPieces(holder, 32 * launch.getSchedule()->getWarps());
    read.indices = thread::ReadIndicesOp::create(
        builder, loc, VectorType::get({count}, indices.getElementType()), tile.tensor,
        tensors.lookup(op.getIndices()), tile.offsets, builder.getI64IntegerAttr(indices.getRank()),
        builder.getDenseI64ArrayAttr(tile.dims),
        DenseBoolArrayAttr::get(builder.getContext(), tile.inBounds),
        tile.extents.empty() ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(tile.extents),
        TypeAttr::get(holder), exists);
  }
}

/// All threads read the same elements; a part of several is read as a whole.
void TileEmitter::emitScalar(block::ScalarOp op) {
  Value tensor = tensors.lookup(op.getSource());
  auto type = cast<MemRefType>(tensor.getType());
  ArrayRef<int64_t> tile = op.getTile();
  int64_t added = type.getRank() - int64_t(tile.size()), elements = 1;
  SmallVector<Value> corner(added, index(0));
  for (auto [axes, size] : llvm::zip_equal(op.getMap(), tile)) {
    int64_t parts = 1;
    Value part = getPart(cast<ArrayAttr>(axes), parts);
    corner.push_back(
        size == 1 ? part : arith::MulIOp::create(builder, loc, part, index(size)).getResult());
    elements *= size;
  }
  Value found;
  for (int64_t element = 0; element < elements; ++element) {
    SmallVector<Value> offsets(corner);
    int64_t rest = element;
    for (int64_t dim = int64_t(tile.size()) - 1; dim >= 0; rest /= tile[dim], --dim)
      if (int64_t at = rest % tile[dim])
        offsets[added + dim] = arith::AddIOp::create(builder, loc, offsets[added + dim], index(at));
    Value loaded = memref::LoadOp::create(builder, loc, tensor, offsets);
    if (!found)
      found = loaded;
    else if (op.getFn() == block::ExtremeFn::Max)
      found = arith::MaxSIOp::create(builder, loc, found, loaded);
    else
      found = arith::MinSIOp::create(builder, loc, found, loaded);
  }
  // Clamped before it is added to anything.
  if (!found.getType().isInteger(64))
    found = arith::ExtSIOp::create(builder, loc, builder.getI64Type(), found);
  auto number = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(builder, loc, value, 64);
  };
  found = arith::MaxSIOp::create(builder, loc, found, number(op.getLeast()));
  found = arith::MinSIOp::create(builder, loc, found, number(op.getMost()));
  scalars[op.getResult()] = arith::IndexCastOp::create(builder, loc, builder.getIndexType(), found);
}
