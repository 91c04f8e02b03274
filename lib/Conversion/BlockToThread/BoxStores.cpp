//===- BoxStores.cpp - results that leave through shared memory -----------===//

#include "TileEmitter.h"

#include "mirage/Dialect/Block/Analysis/Boxes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mirage;
using thread::FragmentType;

/// Stores a result through shared memory; false if it is not stored in this
/// way.
bool TileEmitter::emitBoxStore(block::StoreOp op, unsigned number, Value fragment,
                               const TilePlace &place) {
  if (!launch.getSchedule()->usesWarpgroups())
    return false;
  std::optional<block::BoxStore> box = block::getBoxStore(op, number);
  if (!box)
    return false;
  if (round) {
    emitStoreInParts(*box, fragment, place);
    return true;
  }
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

/// A result of a block that continues with the next tile is stored part by part
/// through the slots of a buffer; a slot is free once the copy from it has read
/// it.
///
///   wait for the last tile's copies; barrier
///   for each part: store to its slot; wait for the copy from the other one; barrier;
///                  start the copy
///
/// One thread starts all copies, and only for this thread do the waits have an
/// effect. If each group of warps owns rows, it stores its own rows: a group
/// that has multiplied stores while others multiply.
void TileEmitter::emitStoreInParts(const block::BoxStore &box, Value fragment,
                                   const TilePlace &place) {
  block::StoreParts parts = block::getStoreParts(box, cast<FragmentType>(fragment.getType()));
  int64_t offset =
      llvm::alignTo(std::max(allocated, 2 * kBeyondRings), parts.buffer.getAlignment());
  allocated = offset + parts.buffer.getTotalBytes();
  Value buffer =
      thread::SharedAllocOp::create(builder, loc, parts.buffer, builder.getI64IntegerAttr(offset));
  auto waitForCopies = [&] {
    thread::BulkWaitOp::create(builder, loc, builder.getI64IntegerAttr(0), builder.getUnitAttr());
  };
  SmallVector<Value> start(place.offsets);
  if (box.byGroups) {
    Value &row = start[place.dims[0]];
    Value first = arith::MulIOp::create(builder, loc, getGroup(), index(thread::kGroupRows));
    row = arith::AddIOp::create(builder, loc, row, first);
  }
  waitForCopies();
  thread::BarrierOp::create(builder, loc, box.byGroups);
  for (int64_t number = 0; number < parts.count; ++number) {
    int64_t col = number * parts.part.getCols();
    Value part = fragment, slot = buffer;
    if (parts.count > 1)
      part = thread::SliceOp::create(builder, loc, parts.part, fragment,
                                     builder.getDenseI64ArrayAttr({0, col}));
    slot = thread::SlotOp::create(builder, loc, buffer, index(number % parts.buffer.getSlots()));
    thread::StoreSharedOp::create(builder, loc, part, slot, DenseI64ArrayAttr(), false);
    thread::FenceOp::create(builder, loc, thread::FenceKind::AsyncProxy);
    if (number > 0 && number + 1 < parts.count)
      waitForCopies();
    thread::BarrierOp::create(builder, loc, box.byGroups);
    SmallVector<Value> at(start);
    at.back() = arith::AddIOp::create(builder, loc, at.back(), index(col));
    if (box.byGroups)
      slot = thread::GroupRowsOp::create(builder, loc, slot);
    thread::TmaStoreOp::create(builder, loc, slot, getTensorMap(box.map), at, box.byGroups);
    thread::BulkCommitOp::create(builder, loc);
  }
}
