//===- ThreadMemoryOps.cpp - verifiers of ops on memory -------------------===//

#include "mirage/Dialect/Common/ElementTypes.h"
#include "mirage/Dialect/Thread/IR/Thread.h"
#include "mirage/Target/WarpSharing.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

using namespace mlir;
using namespace mirage::thread;

/// Shape and element type of a tile that moves to or from a device tensor.
struct Tile {
  ArrayRef<int64_t> shape;
  Type elementType;
};

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

static LogicalResult verifySlot(Operation *op, SharedType type) {
  if (type.isRing())
    return op->emitOpError() << "expected one tile, got a ring; select with thread.slot";
  return success();
}

static LogicalResult verifyNotPartial(Operation *op, FragmentType type) {
  if (type.getPartial())
    return op->emitOpError()
           << "expected the fragment not to be partial; sum it with thread.reduce_warps first";
  return success();
}

/// That a tile has whole rows, of which threads hold vectors.
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
  return verifyNotPartial(*this, getType());
}

/// Rows of `table` in the place of indices.
static MemRefType getGathered(MemRefType table, MemRefType indices, int64_t indexRank) {
  SmallVector<int64_t> shape(indices.getShape().take_back(indexRank));
  llvm::append_range(shape, table.getShape().drop_front());
  return MemRefType::get(shape, table.getElementType());
}

/// Checks what ops that find rows by index have in common.
static LogicalResult verifyLookup(Operation *op, MemRefType table, MemRefType indices,
                                  int64_t indexRank) {
  if (!indices.getElementType().isInteger(32) && !indices.getElementType().isInteger(64))
    return op->emitOpError("expected indices of type i32 or i64, got ") << indices.getElementType();
  if (!isa<FloatType>(table.getElementType()))
    return op->emitOpError("expected a table of floats, got ") << table;
  if (indexRank < 1 || indexRank > indices.getRank())
    return op->emitOpError("expected an index_rank from 1 to ")
           << indices.getRank() << ", got " << indexRank;
  for (MemRefType type : {table, indices})
    if (!type.getLayout().isIdentity())
      return op->emitOpError("expected dense tensors, got ") << type;
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
  return verifyNotPartial(*this, getType());
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

LogicalResult StoreGlobalOp::verify() {
  if (failed(verifyGlobal(*this, getDest().getType(), getOffsets().size(), getDims(),
                          getInBounds().size(), tileOf(getValue().getType()), getExtents(),
                          /*converts=*/true)))
    return failure();
  if (getOrdered() &&
      failed(verifyOrdered(*this, getDest().getType(), getDims(), getValue().getType())))
    return failure();
  return verifyNotPartial(*this, getValue().getType());
}

LogicalResult AtomicAddOp::verify() {
  if (failed(verifyGlobal(*this, getDest().getType(), getOffsets().size(), getDims(),
                          getInBounds().size(), tileOf(getValue().getType()))))
    return failure();
  if (!getValue().getType().getElementType().isF32())
    return emitOpError("expected elements of type f32, got ")
           << getValue().getType().getElementType();
  return verifyNotPartial(*this, getValue().getType());
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

LogicalResult SharedAllocOp::verify() {
  if (getOffset() % getType().getAlignment())
    return emitOpError("expected an offset of a multiple of ")
           << getType().getAlignment() << " bytes, got " << getOffset();
  return success();
}

LogicalResult MbarrierAllocOp::verify() {
  if (getOffset() % 8)
    return emitOpError("expected an offset of a multiple of 8 bytes, got ") << getOffset();
  return success();
}

LogicalResult SlotOp::inferReturnTypes(MLIRContext *, std::optional<Location>, Adaptor adaptor,
                                       SmallVectorImpl<Type> &types) {
  auto ring = dyn_cast<SharedType>(adaptor.getRing().getType());
  if (!ring)
    return failure();
  types.push_back(ring.getSlotType());
  return success();
}

LogicalResult SlotOp::verify() {
  if (!getRing().getType().isRing())
    return emitOpError("expected a ring (a shared type of 3 dimensions), got ")
           << getRing().getType();
  return success();
}

/// Groups of four warps of the role around an op; the op asks for them.
static FailureOr<int64_t> getGroups(Operation *op) {
  auto role = op->getParentOfType<WarpsOp>();
  if (!role || role.getCount() % 4 || role.getCount() > 16) {
    op->emitOpError("expected thread.warps of 4, 8, 12 or 16 warps around it, got ")
        << (role ? std::to_string(role.getCount()) : std::string("none"));
    return failure();
  }
  return role.getCount() / 4;
}

LogicalResult BarrierOp::verify() { return success(!getGroup() || succeeded(getGroups(*this))); }

LogicalResult GroupRowsOp::inferReturnTypes(MLIRContext *, std::optional<Location>, Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  auto tile = dyn_cast<SharedType>(adaptor.getTile().getType());
  if (!tile)
    return failure();
  types.push_back(SharedType::get({kGroupRows, tile.getCols()}, tile.getElementType(),
                                  tile.getSwizzle(), tile.getPad()));
  return success();
}

LogicalResult GroupRowsOp::verify() {
  SharedType tile = getTile().getType();
  FailureOr<int64_t> groups = getGroups(*this);
  if (failed(groups) || failed(verifySlot(*this, tile)))
    return failure();
  int64_t row = tile.getCols() * tile.getElementBytes();
  if (tile.getRows() != kGroupRows * *groups || (tile.getSwizzle() && row > tile.getSwizzle()))
    return emitOpError("expected one panel of ") << kGroupRows * *groups << " rows, got " << tile;
  return success();
}

static LogicalResult verifyShared(Operation *op, SharedType tile, FragmentType fragment,
                                  std::optional<ArrayRef<int64_t>> at, bool transposed) {
  if (failed(verifySlot(op, tile)) || failed(verifyNotPartial(op, fragment)))
    return failure();
  if (tile.getElementType() != fragment.getElementType())
    return op->emitOpError() << "expected a fragment of the tile's element type "
                             << tile.getElementType() << ", got " << fragment.getElementType();
  if (at && at->size() != 2)
    return op->emitOpError() << "expected a row and a column in 'at', got " << at->size()
                             << " numbers";
  int64_t rows = fragment.getRows(), cols = fragment.getCols();
  if (transposed)
    std::swap(rows, cols);
  int64_t row = at ? (*at)[0] : 0, col = at ? (*at)[1] : 0;
  if (row < 0 || col < 0 || row + rows > tile.getRows() || col + cols > tile.getCols())
    return op->emitOpError() << "expected a part of the " << tile.getRows() << "x" << tile.getCols()
                             << " tile, got " << rows << "x" << cols << " at [" << row << ", "
                             << col << "]";
  return success();
}

LogicalResult LoadSharedOp::verify() {
  return verifyShared(*this, getSource().getType(), getType(), getAt(), getTransposed());
}

LogicalResult StoreSharedOp::verify() {
  return verifyShared(*this, getDest().getType(), getValue().getType(), getAt(), getTransposed());
}

LogicalResult LoadRemoteOp::verify() {
  return verifyShared(*this, getSource().getType(), getType(), std::nullopt, false);
}

LogicalResult StoreRemoteOp::verify() {
  return verifyShared(*this, getDest().getType(), getValue().getType(), std::nullopt, false);
}

//===----------------------------------------------------------------------===//
// Tensor memory accelerator, warpgroup products
//===----------------------------------------------------------------------===//

/// A tile is moved panel by panel: the box is one panel (or, without a swizzle,
/// the whole tile), with leading dimensions of 1. With `parts` it has that part of the
/// rows, 0 being any part, in units that swizzles repeat after.
static LogicalResult verifyBox(Operation *op, TensorMapType map, SharedType tile,
                               size_t numCoordinates, int64_t parts = 1) {
  if (failed(verifySlot(op, tile)))
    return failure();
  ArrayRef<int64_t> box = map.getBox();
  if (numCoordinates != box.size())
    return op->emitOpError() << "expected " << box.size() << " coordinates, got " << numCoordinates;
  if (map.getElementType() != tile.getElementType() || map.getSwizzle() != tile.getSwizzle())
    return op->emitOpError() << "expected a tile of the element type and swizzle of " << map
                             << ", got " << tile;
  if (tile.getPad())
    return op->emitOpError() << "expected a tile without pad, got " << tile;
  int64_t rows = 1;
  for (int64_t extent : box.drop_back())
    rows *= extent;
  bool isPart = parts == 0 ? tile.getRows() % rows == 0 : tile.getRows() == rows * parts;
  if (parts != 1 && (!isPart || rows % kPartRows))
    return op->emitOpError() << "expected a box of "
                             << (parts ? "1/" + std::to_string(parts) : std::string("a part"))
                             << " of the tile's " << tile.getRows() << " rows, a multiple of "
                             << kPartRows << ", got " << map;
  if ((parts == 1 && rows != tile.getRows()) || tile.getCols() % box.back() ||
      (tile.getCols() != box.back() && box.back() * tile.getElementBytes() != tile.getSwizzle()))
    return op->emitOpError() << "expected a box of " << tile.getRows()
                             << " rows that is as wide as the tile or one of its panels, got "
                             << map;
  return success();
}

LogicalResult TmaLoadOp::verify() {
  return verifyBox(*this, getMap().getType(), getDest().getType(), getCoordinates().size(),
                   /*parts=*/getPart() ? 0 : 1);
}

LogicalResult TmaStoreOp::verify() {
  if (getGroup() && failed(getGroups(*this)))
    return failure();
  return verifyBox(*this, getMap().getType(), getSource().getType(), getCoordinates().size());
}

/// As many blocks as every chip that has clusters runs together.
static LogicalResult verifyCluster(Operation *op, int64_t blocks) {
  constexpr int64_t most = 8;
  if (blocks > most || !llvm::isPowerOf2_64(blocks))
    return op->emitOpError() << "expected a cluster of 1, 2, 4 or 8 blocks, got " << blocks;
  return success();
}

LogicalResult MbarrierArriveOp::verify() { return verifyCluster(*this, getCluster()); }

LogicalResult RingCreateOp::verify() {
  if (getFullArrivals() == 0)
    return emitOpError("expected writers or fills, got none, so that no slot would ever be full");
  return verifyCluster(*this, getCluster());
}

/// That `numbers` are some of those of a ring's tiles.
static LogicalResult verifyTileNumbers(Operation *op, ArrayRef<int64_t> numbers, size_t tiles,
                                       StringRef which) {
  for (auto [place, number] : llvm::enumerate(numbers))
    if (number < 0 || number >= int64_t(tiles) || (place && number <= numbers[place - 1]))
      return op->emitOpError("expected ")
             << which << " tiles to be numbers from 0 to " << int64_t(tiles) - 1
             << " in increasing order, got " << numbers;
  return success();
}

/// That a ring has writers, for an op that they alone execute.
static LogicalResult verifyWriters(Operation *op, Value ring) {
  auto create = ring.getDefiningOp<RingCreateOp>();
  if (!create || create.getWriters() == 0)
    return op->emitOpError("expected a ring with writers, which fill its slots together");
  return success();
}

LogicalResult RingAcquireOp::verify() { return verifyWriters(*this, getRing()); }
LogicalResult RingPublishOp::verify() { return verifyWriters(*this, getRing()); }

LogicalResult RingFillOp::verify() {
  SmallVector<SharedType> tiles(getRing().getType().getTiles());
  ArrayRef<int64_t> shared = getShared().value_or(ArrayRef<int64_t>());
  auto ring = getRing().getDefiningOp<RingCreateOp>();
  if (std::optional<ArrayRef<int64_t>> into = getInto()) {
    if (failed(verifyWriters(*this, getRing())) ||
        failed(verifyTileNumbers(*this, *into, tiles.size(), "filled")))
      return failure();
    tiles = llvm::map_to_vector(*into, [&](int64_t number) { return tiles[number]; });
  } else if (ring && ring.getWriters()) {
    return emitOpError("expected the numbers of the tiles that it fills (into), for the ring has "
                       "writers");
  }
  if (!shared.empty() && (!ring || ring.getCluster() == 1))
    return emitOpError("expected a ring of a cluster of blocks, with which tiles are shared");
  if (failed(verifyTileNumbers(*this, shared, tiles.size(), "shared")))
    return failure();
  if (tiles.size() != getMaps().size())
    return emitOpError("expected ")
           << tiles.size() << " tensor maps, one for each tile, got " << getMaps().size();
  size_t wanted = 0;
  for (auto [number, value, tile] : llvm::enumerate(getMaps(), tiles)) {
    auto map = cast<TensorMapType>(value.getType());
    int64_t parts = llvm::is_contained(shared, int64_t(number)) ? ring.getCluster() : 1;
    if (failed(verifyBox(*this, map, tile, map.getBox().size(), parts)))
      return failure();
    wanted += map.getBox().size();
  }
  if (wanted != getCoordinates().size())
    return emitOpError("expected ")
           << wanted << " coordinates, those of all maps, got " << getCoordinates().size();
  return success();
}

/// The tiles of a slot.
static LogicalResult inferTiles(Value value, SmallVectorImpl<Type> &types) {
  auto ring = dyn_cast<RingType>(value.getType());
  if (!ring)
    return failure();
  llvm::append_range(types, ring.getTiles());
  return success();
}

LogicalResult RingWaitOp::inferReturnTypes(MLIRContext *, std::optional<Location>, Adaptor adaptor,
                                           SmallVectorImpl<Type> &types) {
  return inferTiles(adaptor.getRing(), types);
}

LogicalResult RingAcquireOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                              Adaptor adaptor, SmallVectorImpl<Type> &types) {
  return inferTiles(adaptor.getRing(), types);
}

LogicalResult SetMaxRegistersOp::verify() {
  int64_t count = getCount();
  if (count < 24 || count > 256 || count % 8)
    return emitOpError("expected a multiple of 8 from 24 to 256, got ") << count;
  return success();
}

int64_t WgmmaOp::getDepth() { return mirage::wgmmaBytes / getRhs().getType().getElementBytes(); }

LogicalResult WgmmaOp::verify() {
  FragmentType acc = getAcc().getType();
  SharedType rhs = getRhs().getType();
  if (!acc.getElementType().isF32() || acc.getPartial())
    return emitOpError("expected an accumulator of f32 that is not partial, got ") << acc;
  int64_t rhsK = getRhsTransposed() ? rhs.getCols() : rhs.getRows();
  int64_t n = getRhsTransposed() ? rhs.getRows() : rhs.getCols();
  int64_t m, k;
  Type element;
  if (auto tile = dyn_cast<SharedType>(getLhs().getType())) {
    m = getLhsTransposed() ? tile.getCols() : tile.getRows();
    k = getLhsTransposed() ? tile.getRows() : tile.getCols();
    element = tile.getElementType();
    if (tile.isRing() || tile.getSwizzle() == 0)
      return emitOpError("expected a swizzled tile as lhs, got ") << tile;
  } else {
    auto fragment = cast<FragmentType>(getLhs().getType());
    m = fragment.getRows(), k = fragment.getCols();
    element = fragment.getElementType();
    if (getLhsTransposed())
      return emitOpError("expected an lhs in shared memory to be transposed");
  }
  if (rhs.isRing() || rhs.getSwizzle() == 0)
    return emitOpError("expected a swizzled tile as rhs, got ") << rhs;
  bool eightBits =
      mirage::isEightBitFloat(element) && mirage::isEightBitFloat(rhs.getElementType());
  if (!eightBits && (element != rhs.getElementType() ||
                     !(element.isF16() || element.isBF16() || element.isF32())))
    return emitOpError("expected factors of the same element type, f16, bf16 or f32, or of 8 bits, "
                       "got ")
           << element << " and " << rhs.getElementType();
  if ((eightBits || element.isF32()) &&
      (!isa<SharedType>(getLhs().getType()) || getLhsTransposed() || !getRhsTransposed()))
    return emitOpError("expected factors of 8 or 32 bits in shared memory whose rows run along K");
  if (getPromoted() && (!eightBits || getFromZero()))
    return emitOpError("expected factors of 8 bits that are added to a sum to be promoted");
  if (m != acc.getRows() || n != acc.getCols() || k != rhsK)
    return emitOpError("shapes do not fit: ") << m << "x" << k << " times " << rhsK << "x" << n
                                              << " into " << acc.getRows() << "x" << acc.getCols();
  if (int64_t depth = getDepth(); k % depth)
    return emitOpError("expected K of a multiple of ") << depth << ", got " << k;
  const LinearLayout &layout = acc.getLinearLayout();
  if (layout.getWarp().size() < 2 || layout.getWarp()[0] != Coord{16, 0} ||
      layout.getWarp()[1] != Coord{32, 0} || m % 64)
    return emitOpError("expected an accumulator of layout wgmmaResultLayout, got <")
           << layout.str() << ">";
  return success();
}
