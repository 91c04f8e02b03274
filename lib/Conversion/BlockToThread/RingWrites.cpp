//===- RingWrites.cpp - tiles of rings that warps fill together -----------===//
//
// The tensor memory accelerator copies boxes. Rows that indices name may be
// anywhere, so four warps copy them, as a step of a ring:
//
//   wait until the slot is free
//   start the copies of boxes; a box of one row of a table (an expert's matrix) as well,
//     at the place that its index says
//   copy looked up rows by pieces of 16 bytes
//   arrive: each thread when its copies are done, if it copies rows; each warp for what
//     it has stored
//
// Rows whose index is outside of the table are NaN, which threads store. A box
// whose row does not exist is written in this way, too.
//
//===----------------------------------------------------------------------===//

#include "TileEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mirage;
using block::getShared;

void TileEmitter::emitWrites(ArrayRef<Operation *> reads, Value ring, Value step) {
  auto acquire = thread::RingAcquireOp::create(builder, loc, ring, step);
  Boxes boxes;
  SmallVector<int64_t> loaded;
  for (auto [number, read] : llvm::enumerate(reads))
    if (auto load = dyn_cast<block::LoadOp>(read)) {
      addBox(load, boxes);
      loaded.push_back(int64_t(number));
    }
  if (!loaded.empty())
    thread::RingFillOp::create(builder, loc, ring, step, boxes.maps, boxes.coordinates,
                               DenseI64ArrayAttr(), builder.getDenseI64ArrayAttr(loaded));
  SmallVector<std::pair<block::GatherOp, Value>> rows;
  for (auto [number, read] : llvm::enumerate(reads))
    if (auto gather = dyn_cast<block::GatherOp>(read)) {
      if (block::isBoxOfRow(gather))
        emitRowBox(gather, ring, step, int64_t(number), acquire.getTiles()[number]);
      else
        rows.push_back({gather, acquire.getTiles()[number]});
    }
  // One thread has started its copies before; copies by all threads take
  // longer.
  for (auto [gather, tile] : rows)
    gatherToShared(gather, tile, Value());
  thread::RingPublishOp::create(builder, loc, ring, step);
}

/// One fill either way, so that as many threads arrive.
void TileEmitter::emitRowBox(block::GatherOp op, Value ring, Value step, int64_t number,
                             Value tile) {
  auto held = cast<thread::SharedType>(tile.getType());
  SmallVector<Value> place = getGatheredPlace(op, held.getRows(), held.getCols()).offsets;
  TableRow found = tableRows.count(op) ? tableRows.lookup(op) : getTableRow(op);
  auto branch = scf::IfOp::create(builder, loc, found.exists, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  size_t indexRank = cast<RankedTensorType>(op.getIndices().getType()).getRank();
  SmallVector<Value> at = {found.row};
  llvm::append_range(at, ArrayRef(place).drop_front(indexRank));
  thread::RingFillOp::create(builder, loc, ring, step, getTensorMap(block::getTensorMap(op)), at,
                             DenseI64ArrayAttr(), builder.getDenseI64ArrayAttr({number}));
  builder.setInsertionPointToStart(branch.elseBlock());
  thread::RingFillOp::create(builder, loc, ring, step, ValueRange(), ValueRange(),
                             DenseI64ArrayAttr(), builder.getDenseI64ArrayAttr({}));
  gatherToShared(op, tile, Value());
  // Threads copy nothing else of the ring: every step would pay for their
  // arrivals.
  if (ring.getDefiningOp<thread::RingCreateOp>().getCopies())
    return;
  thread::CopyCommitOp::create(builder, loc);
  thread::CopyWaitOp::create(builder, loc, builder.getI64IntegerAttr(0));
}

/// Reads the index of a lookup of one row; all threads read the same.
TableRow TileEmitter::getTableRow(block::GatherOp op) {
  Value indices = tensors.lookup(op.getIndices());
  auto type = cast<MemRefType>(indices.getType());
  auto tensor = cast<RankedTensorType>(op.getIndices().getType());
  SmallVector<Value> at(type.getRank() - tensor.getRank(), index(0));
  for (auto [axes, extent] : llvm::zip(op.getMap(), tensor.getShape())) {
    int64_t parts = 1;
    Value part = getPart(cast<ArrayAttr>(axes), parts);
    // Beyond the indices, the tile is outside of the tensor, whatever its row.
    if (parts > extent)
      part = arith::MinUIOp::create(builder, loc, part, index(extent - 1));
    at.push_back(part);
  }
  Value found = memref::LoadOp::create(builder, loc, indices, at);
  if (!found.getType().isInteger(64))
    found = arith::ExtSIOp::create(builder, loc, builder.getI64Type(), found);
  auto number = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(builder, loc, value, 64);
  };
  int64_t rows = cast<RankedTensorType>(op.getTable().getType()).getShape().front();
  if (op.getFromEnd()) {
    Value negative =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, found, number(0));
    Value fromStart = arith::AddIOp::create(builder, loc, found, number(rows));
    found = arith::SelectOp::create(builder, loc, negative, fromStart, found);
  }
  // Negative ones are large without a sign.
  Value exists =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, found, number(rows));
  Value row = arith::SelectOp::create(builder, loc, exists, found, number(0));
  return {arith::IndexCastOp::create(builder, loc, builder.getIndexType(), row), exists};
}

/// Indices of boxes that are the same at all steps of a loop are read once.
void TileEmitter::findTableRows(ArrayRef<Operation *> reads, StringRef axis) {
  for (Operation *read : reads) {
    auto gather = dyn_cast<block::GatherOp>(read);
    if (!gather || !getShared(gather.getResult()) || !block::isBoxOfRow(gather))
      continue;
    size_t rank = cast<RankedTensorType>(gather.getIndices().getType()).getRank();
    bool differs = llvm::any_of(gather.getMap().getValue().take_front(rank), [&](Attribute axes) {
      return llvm::any_of(cast<ArrayAttr>(axes), [&](Attribute name) {
        return cast<StringAttr>(name).getValue() == axis;
      });
    });
    if (differs)
      tableRows.erase(gather);
    else
      tableRows[gather] = getTableRow(gather);
  }
}
