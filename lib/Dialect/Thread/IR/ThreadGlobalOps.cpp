//===- ThreadGlobalOps.cpp - verifiers of ops on device tensors -----------===//

#include "Verifiers.h"

#include "mirage/Dialect/Common/ElementTypes.h"
#include "mirage/Dialect/Thread/IR/Thread.h"

using namespace mlir;
using namespace mirage::thread;

namespace {
/// Shape and element type of a tile that moves to or from a device tensor.
struct Tile {
  ArrayRef<int64_t> shape;
  Type elementType;
};
} // namespace

static LogicalResult verifyGlobal(Operation *op, MemRefType tensor, size_t numOffsets,
                                  ArrayRef<int64_t> dims, size_t numInBounds, Tile tile,
                                  std::optional<ArrayRef<int64_t>> extents = std::nullopt,
                                  bool converts = false) {
  int64_t rank = tensor.getRank();
  if (int64_t(numOffsets) != rank)
    return op->emitOpError() << "expected " << rank << " offsets, one for each dimension, got "
                             << numOffsets;
  if (dims.size() != 2 || numInBounds != 2)
    return op->emitOpError() << "expected 2 entries in 'dims' and in 'in_bounds', got "
                             << dims.size() << " and " << numInBounds;
  for (int axis : {0, 1}) {
    if (dims[axis] < -1 || dims[axis] >= rank)
      return op->emitOpError() << "expected 'dims' from -1 to " << rank - 1 << ", got "
                               << dims[axis];
    if (dims[axis] == -1 && tile.shape[axis] != 1)
      return op->emitOpError() << "expected extent 1 where 'dims' is -1, got " << tile.shape[axis];
  }
  if (extents && extents->size() != 2)
    return op->emitOpError() << "expected 2 entries in 'extents', got " << extents->size();
  for (int axis : {0, 1})
    if (extents && ((*extents)[axis] < 1 || (*extents)[axis] > tile.shape[axis]))
      return op->emitOpError() << "expected 'extents' from 1 to " << tile.shape[axis] << ", got "
                               << (*extents)[axis];
  if (dims[0] == dims[1] && dims[0] != -1)
    return op->emitOpError() << "expected two different 'dims', got " << dims[0] << " twice";
  Type element = tensor.getElementType();
  bool isConverted = converts && element != tile.elementType &&
                     (tile.elementType == mirage::getTileElement(element) ||
                      (element.isInteger() && tile.elementType.isInteger(64)) ||
                      (mirage::isEightBitFloat(element) && tile.elementType.isF32()));
  if (tensor.getElementType() != tile.elementType && !isConverted)
    return op->emitOpError() << "expected a tile of the tensor's element type "
                             << tensor.getElementType() << ", got " << tile.elementType;
  SmallVector<int64_t> strides;
  int64_t offset;
  if (failed(tensor.getStridesAndOffset(strides, offset)) || ShapedType::isDynamic(offset) ||
      llvm::any_of(strides, ShapedType::isDynamic))
    return op->emitOpError() << "expected a tensor of static strides and offset, got " << tensor;
  return success();
}

static Tile tileOf(FragmentType type) { return {type.getShape(), type.getElementType()}; }
static Tile tileOf(SharedType type) {
  return {type.getShape().take_back(2), type.getElementType()};
}

/// Checks that a tile has whole rows, of which threads hold vectors.
static LogicalResult verifyOrdered(Operation *op, MemRefType tensor, ArrayRef<int64_t> dims,
                                   FragmentType tile) {
  int64_t width = kVectorBytes * 8 / tile.getElementType().getIntOrFloatBitWidth();
  int64_t columns = dims[1] < 0 ? 1 : tensor.getDimSize(dims[1]);
  if (tile.getElementType() != tensor.getElementType() || tile.getCols() < columns ||
      countWholeColumns(columns, width) <= 0 || tile.getLinearLayout().contiguous(1) < width)
    return op->emitOpError("expected rows of ")
           << columns << " columns in vectors of " << width << " " << tensor.getElementType()
           << " in each thread, got " << tile;
  return success();
}

LogicalResult LoadGlobalOp::verify() {
  if (failed(verifyGlobal(*this, getSource().getType(), getOffsets().size(), getDims(),
                          getInBounds().size(), tileOf(getType()), getExtents(),
                          /*converts=*/true)))
    return failure();
  if (getOrdered() && failed(verifyOrdered(*this, getSource().getType(), getDims(), getType())))
    return failure();
  return verifyNotPartial(*this, getType(), "the fragment");
}

LogicalResult StoreGlobalOp::verify() {
  if (failed(verifyGlobal(*this, getDest().getType(), getOffsets().size(), getDims(),
                          getInBounds().size(), tileOf(getValue().getType()), getExtents(),
                          /*converts=*/true)))
    return failure();
  if (getOrdered() &&
      failed(verifyOrdered(*this, getDest().getType(), getDims(), getValue().getType())))
    return failure();
  return verifyNotPartial(*this, getValue().getType(), "the fragment");
}

LogicalResult AtomicAddOp::verify() {
  if (failed(verifyGlobal(*this, getDest().getType(), getOffsets().size(), getDims(),
                          getInBounds().size(), tileOf(getValue().getType()))))
    return failure();
  if (!getValue().getType().getElementType().isF32())
    return emitOpError("expected elements of type f32, got ")
           << getValue().getType().getElementType();
  return verifyNotPartial(*this, getValue().getType(), "the fragment");
}

LogicalResult CopyAsyncOp::verify() {
  if (failed(verifySlot(*this, getDest().getType())))
    return failure();
  return verifyGlobal(*this, getSource().getType(), getOffsets().size(), getDims(),
                      getInBounds().size(), tileOf(getDest().getType()), getExtents());
}

LogicalResult BulkCopyOp::verify() {
  if (failed(verifySlot(*this, getDest().getType())) ||
      failed(verifyGlobal(*this, getSource().getType(), getOffsets().size(), getDims(), 2,
                          tileOf(getDest().getType()))))
    return failure();
  SharedType dest = getDest().getType();
  if (dest.getSwizzle())
    return emitOpError("expected a tile without swizzle, got ") << dest;
  int64_t rowBytes = dest.getCols() * dest.getElementBytes();
  if (rowBytes % 16 || dest.getRowPitch() % 16)
    return emitOpError("expected rows of a multiple of 16 bytes at a multiple of 16 bytes, got ")
           << rowBytes << " at " << dest.getRowPitch();
  SmallVector<int64_t> strides;
  int64_t offset;
  (void)getSource().getType().getStridesAndOffset(strides, offset);
  if (getDims()[1] == -1 || strides[getDims()[1]] != 1)
    return emitOpError("expected the tile's columns along a dimension of stride 1");
  return success();
}

/// Rows of `table` in place of indices.
static MemRefType getGathered(MemRefType table, MemRefType indices, int64_t indexRank) {
  SmallVector<int64_t> shape(indices.getShape().take_back(indexRank));
  llvm::append_range(shape, table.getShape().drop_front());
  return MemRefType::get(shape, table.getElementType());
}

/// The common checks of ops that find rows by index.
static LogicalResult verifyLookup(Operation *op, MemRefType table, MemRefType indices,
                                  int64_t indexRank) {
  if (!indices.getElementType().isInteger(32) && !indices.getElementType().isInteger(64))
    return op->emitOpError("expected indices of type i32 or i64, got ") << indices.getElementType();
  if (!isa<FloatType>(table.getElementType()))
    return op->emitOpError("expected a table of floats, got ") << table;
  if (indexRank < 1 || indexRank > indices.getRank())
    return op->emitOpError("expected an index_rank from 1 to ")
           << indices.getRank() << ", got " << indexRank;
  if (!indices.getLayout().isIdentity())
    return op->emitOpError("expected dense indices, got ") << indices;
  SmallVector<int64_t> strides;
  int64_t offset = 0, dense = 1;
  if (failed(table.getStridesAndOffset(strides, offset)) || ShapedType::isDynamic(offset))
    return op->emitOpError("expected a table with constant strides, got ") << table;
  for (int64_t dim = table.getRank() - 1; dim > 0; dense *= table.getDimSize(dim--))
    if (strides[dim] != dense)
      return op->emitOpError("expected a table with dense rows, got ") << table;
  return success();
}

MemRefType GatherGlobalOp::getGatheredType() {
  return getGathered(getTable().getType(), getIndices().getType(), getIndexRank());
}

LogicalResult GatherGlobalOp::verify() {
  if (failed(verifyLookup(*this, getTable().getType(), getIndices().getType(), getIndexRank())) ||
      failed(verifyGlobal(*this, getGatheredType(), getOffsets().size(), getDims(),
                          getInBounds().size(), tileOf(getType()), getExtents())))
    return failure();
  return verifyNotPartial(*this, getType(), "the fragment");
}

MemRefType GatherAsyncOp::getGatheredType() {
  return getGathered(getTable().getType(), getIndices().getType(), getIndexRank());
}

/// Checks a copy of rows by index to a tile, of whose pieces `rows` are the indices, if not null.
template <typename OpT> static LogicalResult verifyRows(OpT op, SharedType tile, VectorType rows) {
  if (failed(verifyLookup(op, op.getTable().getType(), op.getIndices().getType(),
                          op.getIndexRank())) ||
      failed(verifySlot(op, tile)) ||
      failed(verifyGlobal(op, op.getGatheredType(), op.getOffsets().size(), op.getDims(),
                          op.getInBounds().size(), tileOf(tile), op.getExtents())))
    return failure();
  int64_t last = op.getGatheredType().getRank() - 1;
  if (op.getDims()[1] != last || last < int64_t(op.getIndexRank()))
    return op.emitOpError("expected columns along the table's last dimension, got dimension ")
           << op.getDims()[1];
  int64_t unit = 16 / tile.getElementBytes(), row = op.getTable().getType().getShape().back();
  if (tile.getCols() % unit || row % unit || tile.getRowPitch() % 16)
    return op.emitOpError("expected rows of multiples of 16 bytes, got ")
           << op.getTable().getType() << " and " << tile;
  if (rows && rows.getElementType() != op.getIndices().getType().getElementType())
    return op.emitOpError("expected rows of the indices' type, ")
           << op.getIndices().getType().getElementType() << ", got " << rows;
  return success();
}

LogicalResult GatherAsyncOp::verify() {
  return verifyRows(*this, getDest().getType(),
                    getRows() ? cast<VectorType>(getRows().getType()) : VectorType());
}

MemRefType ReadIndicesOp::getGatheredType() {
  return getGathered(getTable().getType(), getIndices().getType(), getIndexRank());
}

int64_t ReadIndicesOp::countPieces(SharedType tile, int64_t threads) {
  return llvm::divideCeil(tile.getRows() * tile.getCols() * tile.getElementBytes() / 16, threads);
}

LogicalResult ReadIndicesOp::verify() {
  return verifyRows(*this, getShared(), cast<VectorType>(getRows().getType()));
}
