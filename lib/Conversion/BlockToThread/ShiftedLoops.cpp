//===- ShiftedLoops.cpp - loops that begin before their first tile --------===//
//
// A loop with a shifted box (ShiftedBoxes.h) begins before the tiles' first
// element, by the number of elements by which the block's rows start after a
// multiple of 16 bytes:
//
//   position of a box along the loop's axis:    step * extent of the tile - shift
//   steps:    as many as reach the last element from there
//   readers, at the first and at the last step:    zeros in the shifted box beyond the rows
//
//===----------------------------------------------------------------------===//

#include "TileEmitter.h"

#include "mirage/Dialect/Block/Analysis/ShiftedBoxes.h"
#include "mirage/Target/Staging.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mirage;
using block::getShared;

/// Extents along the dimension that the loop's axis cuts, of the tensor and of
/// the tile.
static std::pair<int64_t, int64_t> getExtents(block::LoadOp load) {
  auto tensor = cast<RankedTensorType>(load.getSource().getType());
  return {tensor.getShape().back(), load.getType().getShape().back()};
}

LoopSteps TileEmitter::getShiftedSteps(block::LoopOp op, block::LoadOp load) {
  auto tensor = cast<RankedTensorType>(load.getSource().getType());
  SmallVector<int64_t> strides = kernel::getStrides(tensor);
  int64_t rank = tensor.getRank(), joined = block::getJoinedDims(tensor, load.getType());
  Value start = index(0);
  for (int64_t dim = rank - joined; dim < rank - 1; ++dim) {
    int64_t parts;
    Value part = getPart(cast<ArrayAttr>(load.getMap()[dim]), parts);
    start = arith::AddIOp::create(builder, loc, start,
                                  arith::MulIOp::create(builder, loc, part, index(strides[dim])));
  }
  int64_t unit = boxRowUnit * 8 / tensor.getElementTypeBitWidth();
  Value shift = arith::RemUIOp::create(builder, loc, start, index(unit));
  shifts[op] = shift;
  auto [extent, tile] = getExtents(load);
  Value end = arith::AddIOp::create(builder, loc, shift, index(extent + tile - 1));
  Value count = arith::DivUIOp::create(builder, loc, end, index(tile));
  return {index(0), count, count};
}

/// Coordinates of a box, from those of the load's tile.
void TileEmitter::shiftBox(block::LoadOp load, SmallVectorImpl<Value> &at) {
  auto loop = dyn_cast<block::LoopOp>(load->getParentOp());
  Value shift = loop ? shifts.lookup(loop) : Value();
  if (!shift)
    return;
  Value &along = at[*block::getDimAlong(load, loop.getAxis())];
  along = arith::SubIOp::create(builder, loc, along, shift);
  if (!block::isShifted(load))
    return;
  auto tensor = cast<RankedTensorType>(load.getSource().getType());
  SmallVector<int64_t> strides = kernel::getStrides(tensor);
  for (int64_t left = block::getJoinedDims(tensor, load.getType()) - 1; left > 0; --left) {
    Value last = at.pop_back_val();
    int64_t dim = at.size() - 1;
    at[dim] = arith::MulIOp::create(builder, loc, at[dim], index(strides[dim]));
    at[dim] = arith::AddIOp::create(builder, loc, at[dim], last);
  }
}

void TileEmitter::clearBeyondRows(block::LoadOp load, Value tile, Value step, Value count) {
  constexpr int64_t vectorBytes = 16;
  auto [extent, width] = getExtents(load);
  auto is = [&](Value place) -> Value {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, step, place);
  };
  Value isLast = is(arith::SubIOp::create(builder, loc, count, index(1)));
  Value isEnd = arith::OrIOp::create(builder, loc, is(index(0)), isLast);
  auto branch = scf::IfOp::create(builder, loc, isEnd, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  auto type = cast<thread::SharedType>(tile.getType());
  int64_t rows = type.getRows() & -type.getRows(), cols = type.getCols() & -type.getCols();
  auto part = FragmentType::get(
      type.getElementType(), thread::blockedLayout(rows, cols, vectorBytes / type.getElementBytes(),
                                                   launch.getSchedule()->getWarps()));
  Value first = arith::MulIOp::create(builder, loc, step, index(width));
  first = arith::SubIOp::create(builder, loc, first, shifts.lookup(load->getParentOp()));
  auto along = builder.getI64IntegerAttr(1);
  FloatAttr zero = builder.getF64FloatAttr(0);
  for (int64_t row = 0; row < type.getRows(); row += rows)
    for (int64_t col = 0; col < type.getCols(); col += cols) {
      auto at = builder.getDenseI64ArrayAttr({row, col});
      Value held = thread::LoadSharedOp::create(builder, loc, part, tile, at, false);
      Value place = arith::AddIOp::create(builder, loc, first, index(col));
      held = thread::MaskOp::create(builder, loc, part, held, along, place,
                                    builder.getI64IntegerAttr(0), zero, builder.getUnitAttr());
      held = thread::MaskOp::create(builder, loc, part, held, along, place,
                                    builder.getI64IntegerAttr(extent), zero);
      thread::StoreSharedOp::create(builder, loc, held, tile, at, false);
    }
  thread::FenceOp::create(builder, loc, thread::FenceKind::AsyncProxy);
  thread::BarrierOp::create(builder, loc);
}
