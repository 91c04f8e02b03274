//===- DeviceTiles.cpp - tiles from and to device tensors -----------------===//

#include "TileEmitter.h"

#include "mirage/Dialect/Block/Analysis/OverlappingTiles.h"
#include "mirage/Dialect/Common/ElementTypes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mirage;
using block::getMatrix;
using block::getShared;
using block::getTile;
using block::TileType;

Value TileEmitter::getPart(ArrayAttr axes, int64_t &parts) {
  Value part;
  parts = 1;
  for (Attribute axis : axes) {
    StringRef name = cast<StringAttr>(axis).getValue();
    int64_t extent = extents.lookup(name);
    Value at = position.lookup(name);
    part = part ? arith::AddIOp::create(
                      builder, loc, arith::MulIOp::create(builder, loc, part, index(extent)), at)
                      .getResult()
                : at;
    parts *= extent;
  }
  return part ? part : index(0);
}

/// Whether the last of the parts into which axes cut a dimension begins
/// earlier, so that it ends with the tensor.
bool TileEmitter::lastPartOverlaps(ArrayAttr axes) {
  if (isSized || axes.size() != 1 || !launch.getSchedule()->usesWarpgroups())
    return false;
  StringRef axis = cast<StringAttr>(axes[0]).getValue();
  auto [found, isNew] = overlapping.try_emplace(axis, false);
  if (isNew)
    found->second = block::lastTileMayOverlap(launch, axis);
  return found->second;
}

/// Tensor dimensions of the rows and columns of a tile of at most two
/// dimensions larger than 1.
static SmallVector<int64_t, 2> getMatrixDims(ArrayRef<int64_t> tile, bool isColumn) {
  SmallVector<int64_t, 2> large;
  for (auto [dim, size] : llvm::enumerate(tile))
    if (size > 1)
      large.push_back(dim);
  int64_t last = tile.size() - 1;
  if (large.size() == 2)
    return large;
  if (large.empty())
    return {last - 1, last};
  // A vector: another dimension, of tile size 1, serves as the other one.
  int64_t dim = large.front(), other = dim == last ? last - 1 : last;
  return isColumn ? SmallVector<int64_t, 2>{dim, other} : SmallVector<int64_t, 2>{other, dim};
}

TilePlace TileEmitter::getTilePlace(Value tensor, MemRefType type, ArrayAttr map, TileType tile,
                                    ArrayRef<int64_t> matrixAndHolder) {
  ArrayRef<int64_t> matrix = matrixAndHolder.take_front(2), holder = matrixAndHolder.drop_front(2);
  TilePlace result;
  result.tensor = tensor;
  // Leading dimensions that the parameter has beyond the tensor.
  int64_t added = type.getRank() - tile.getRank();
  SmallVector<int64_t> shape(added, 1);
  llvm::append_range(shape, tile.getShape());
  SmallVector<bool> covered(added, true);
  for (int64_t dim = 0; dim < added; ++dim)
    result.offsets.push_back(index(0));
  result.dims = getMatrixDims(shape, matrix[0] > 1);
  // Whether the other dimensions, of tile size 1, are inside of the tensor.
  Value inside;
  for (auto [dim, axes] : llvm::enumerate(map)) {
    int64_t parts;
    Value part = getPart(cast<ArrayAttr>(axes), parts);
    int64_t size = tile.getShape()[dim], extent = type.getShape()[added + dim];
    bool overlaps = parts * size > extent && lastPartOverlaps(cast<ArrayAttr>(axes));
    Value offset =
        size == 1 ? part : arith::MulIOp::create(builder, loc, part, index(size)).getResult();
    if (overlaps)
      offset = arith::MinUIOp::create(builder, loc, offset, index(extent - size));
    result.offsets.push_back(offset);
    covered.push_back(parts * size == extent || overlaps);
    if (covered.back() || llvm::is_contained(result.dims, added + int64_t(dim)))
      continue;
    Value isPart =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, part, index(extent));
    inside = inside ? arith::AndIOp::create(builder, loc, inside, isPart).getResult() : isPart;
  }
  result.inBounds = {covered[result.dims[0]], covered[result.dims[1]]};
  // Otherwise all rows are outside: zero when they are read, dropped when
  // written.
  if (inside) {
    Value &row = result.offsets[result.dims[0]];
    row =
        arith::SelectOp::create(builder, loc, inside, row, index(type.getShape()[result.dims[0]]));
    result.inBounds[0] = false;
  }
  if (matrix != holder)
    result.extents = {matrix[0], matrix[1]};
  return result;
}

/// Rows and columns of a tile, then those of its holder.
template <typename HolderT> static SmallVector<int64_t> getShapes(TileType matrix, HolderT holder) {
  SmallVector<int64_t> shapes(matrix.getShape());
  llvm::append_range(shapes, ArrayRef<int64_t>{holder.getRows(), holder.getCols()});
  return shapes;
}

static DenseI64ArrayAttr getExtentsAttr(OpBuilder &builder, const TilePlace &tile) {
  return tile.extents.empty() ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(tile.extents);
}

void TileEmitter::copyToShared(Operation *read, Value slot, Value when, Value indices) {
  if (auto gather = dyn_cast<block::GatherOp>(read))
    return gatherToShared(gather, slot, when, indices);
  auto load = cast<block::LoadOp>(read);
  auto holder = cast<thread::SharedType>(slot.getType());
  TilePlace tile = getTilePlace(tensors.lookup(load.getSource()), load.getMap(), load.getType(),
                                getShapes(getTile(getMatrix(load)), holder));
  thread::CopyAsyncOp::create(builder, loc, tile.tensor, tile.offsets, tile.dims, tile.inBounds,
                              getExtentsAttr(builder, tile), slot, when);
}

void TileEmitter::beginCopy(Operation *read) {
  Value slot = allocate(read->getResult(0));
  copyToShared(read, slot, Value());
  commitCopies();
  sharedViews[read->getResult(0)] = {slot, false};
  pendingGroup[slot] = committed - 1;
}

void TileEmitter::waitForTile(Operation *read) {
  auto wait =
      thread::RingWaitOp::create(builder, loc, rings[read].front(), round ? round : index(0));
  sharedViews[read->getResult(0)] = {wait.getTiles().front(), false};
}

void TileEmitter::emitLoad(block::LoadOp op) {
  if (thread::SharedType shared = getShared(op.getResult())) {
    // Loads of a loop with stages are emitted by the loop.
    if (shared.isRing())
      return;
    return rings.count(op) ? waitForTile(op) : beginCopy(op);
  }
  FragmentType type = typeOf(op.getResult());
  TilePlace tile = getTilePlace(tensors.lookup(op.getSource()), op.getMap(), op.getType(),
                                getShapes(getTile(getMatrix(op)), type));
  fragments[op.getResult()] =
      thread::LoadGlobalOp::create(builder, loc, type, tile.tensor, tile.offsets, tile.dims,
                                   tile.inBounds, getExtentsAttr(builder, tile), Value());
}

void TileEmitter::emitStore(block::StoreOp op) {
  for (auto [number, value] : llvm::enumerate(op.getTiles())) {
    // The matrix, before it got the rank of the tensor.
    Value source = value;
    while (getTile(source).getRank() != 2)
      source = source.getDefiningOp<block::ReshapeOp>().getInput();
    Value fragment = get(source);
    auto tensor = cast<RankedTensorType>(launch.getResult(number).getType());
    // Registers hold whole numbers as f32 or i64, and floats of 8 bits in the type in which they
    // were computed; the store converts them.
    if (!isEightBitFloat(tensor.getElementType()) &&
        !cast<FragmentType>(fragment.getType()).getElementType().isInteger())
      fragment = castTo(fragment, getTileElement(tensor.getElementType()));
    auto map = cast<ArrayAttr>(op.getMaps()[number]);
    SmallVector<int64_t> shapes =
        getShapes(getTile(source), cast<FragmentType>(fragment.getType()));
    TilePlace tile = launch.getPlace(number)
                         ? getPlacedTile(number, map, getTile(value), shapes)
                         : getTilePlace(outputs[number], map, getTile(value), shapes);
    if (emitBoxStore(op, number, fragment, tile))
      continue;
    // One of the blocks that hold the same tile writes it.
    for (Attribute name : launch.getGridNames()) {
      StringRef axis = cast<StringAttr>(name).getValue();
      if (extents.lookup(axis) == 1 || llvm::any_of(map, [&](Attribute axes) {
            return llvm::is_contained(cast<ArrayAttr>(axes), name);
          }))
        continue;
      Value isFirst = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                            position.lookup(axis), index(0));
      tile.when =
          tile.when ? arith::AndIOp::create(builder, loc, tile.when, isFirst).getResult() : isFirst;
    }
    thread::StoreGlobalOp::create(builder, loc, fragment, tile.tensor, tile.offsets, tile.dims,
                                  tile.inBounds, getExtentsAttr(builder, tile), tile.when);
  }
}
