//===- SourceEmitter.cpp - tiles of tensors that nobody writes -------------===//

#include "TileEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

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

void TileEmitter::emitGather(block::GatherOp op) {
  FragmentType type = typeOf(op.getResult());
  RankedTensorType gathered = op.getGatheredType();
  auto stands = MemRefType::get(gathered.getShape(), gathered.getElementType());
  SmallVector<int64_t> shapes(getTile(getMatrix(op.getResult())).getShape());
  llvm::append_range(shapes, ArrayRef<int64_t>{type.getRows(), type.getCols()});
  TilePlace tile = getTilePlace(tensors.lookup(op.getTable()), stands, op.getMap(),
                                cast<TileType>(op.getResult().getType()), shapes);
  fragments[op.getResult()] = thread::GatherGlobalOp::create(
      builder, loc, type, tile.tensor, tensors.lookup(op.getIndices()), tile.offsets,
      builder.getI64IntegerAttr(cast<RankedTensorType>(op.getIndices().getType()).getRank()),
      builder.getDenseI64ArrayAttr(tile.dims),
      DenseBoolArrayAttr::get(builder.getContext(), tile.inBounds),
      tile.extents.empty() ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(tile.extents));
}
