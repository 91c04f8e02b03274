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

/// Where the tile lies in the tensor that the lookup stands for.
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
      tile.extents.empty() ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(tile.extents));
}

void TileEmitter::gatherToShared(block::GatherOp op, Value slot, Value when) {
  auto holder = cast<thread::SharedType>(slot.getType());
  TilePlace tile = getGatheredPlace(op, holder.getRows(), holder.getCols());
  thread::GatherAsyncOp::create(
      builder, loc, tile.tensor, tensors.lookup(op.getIndices()), tile.offsets,
      builder.getI64IntegerAttr(cast<RankedTensorType>(op.getIndices().getType()).getRank()),
      builder.getDenseI64ArrayAttr(tile.dims),
      DenseBoolArrayAttr::get(builder.getContext(), tile.inBounds),
      tile.extents.empty() ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(tile.extents), slot,
      when);
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
  // Bounded before it is added to anything.
  if (!found.getType().isInteger(64))
    found = arith::ExtSIOp::create(builder, loc, builder.getI64Type(), found);
  auto number = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(builder, loc, value, 64);
  };
  found = arith::MaxSIOp::create(builder, loc, found, number(op.getLeast()));
  found = arith::MinSIOp::create(builder, loc, found, number(op.getMost()));
  scalars[op.getResult()] = arith::IndexCastOp::create(builder, loc, builder.getIndexType(), found);
}
