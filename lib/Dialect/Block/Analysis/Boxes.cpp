//===- Boxes.cpp - tiles that the tensor memory accelerator copies --------===//

#include "mirage/Dialect/Block/Analysis/Boxes.h"

#include "mirage/Dialect/Block/Analysis/Clusters.h"
#include "mirage/Dialect/Block/Analysis/HeldTile.h"
#include "mirage/Dialect/Block/Analysis/ShiftedBoxes.h"
#include "mirage/Dialect/Common/ElementTypes.h"
#include "mirage/Dialect/Common/Say.h"
#include "mirage/Target/Staging.h"
#include "mirage/Target/WarpSharing.h"

using namespace mlir;
using namespace mirage;
using namespace mirage::block;
using thread::SharedType;

SharedType mirage::block::getSharedType(int64_t rows, int64_t cols, Type elementType) {
  int64_t bytes = elementType.getIntOrFloatBitWidth() / 8;
  return SharedType::get({rows, cols}, elementType, getSharedSwizzle(rows, cols * bytes),
                         /*pad=*/0);
}

/// The reason why a tile of a tensor whose rows start at multiples of 16 bytes is not a box.
static std::optional<std::string> whyTooLarge(RankedTensorType tensor, TileType type) {
  ArrayRef<int64_t> tile = type.getShape();
  int64_t bytes = tensor.getElementType().getIntOrFloatBitWidth() / 8, rank = tensor.getRank();
  if (rank < minBoxRank || rank > maxBoxRank)
    return say("a tensor of ", minBoxRank, " to ", maxBoxRank, " dimensions, got ", tensor);
  if (tile.back() * bytes % boxTileUnit)
    return say("rows of the tile of a multiple of ", boxTileUnit, " bytes, got ", type);
  int64_t rows = 1;
  for (int64_t extent : tile.drop_back())
    rows *= extent;
  if (rows > maxBoxRows)
    return say("at most ", maxBoxRows, " rows of a tile, got ", type);
  // Rows of a swizzle are copied by panels, others as a whole.
  if (!getSharedSwizzle(rows, tile.back() * bytes) && tile.back() > maxBoxRows)
    return say("at most ", maxBoxRows, " elements of a single row, got ", type);
  return std::nullopt;
}

std::optional<std::string> mirage::block::whyNoBox(RankedTensorType tensor, TileType type) {
  if (kernel::getRowAlign(tensor) % boxRowUnit)
    return say("rows of the tensor that start at multiples of ", boxRowUnit, " bytes, got ",
               tensor);
  return whyTooLarge(tensor, type);
}

std::optional<std::string> mirage::block::whyNoBox(LoadOp load) {
  auto tensor = cast<RankedTensorType>(load.getSource().getType());
  return isShifted(load) ? whyTooLarge(tensor, load.getType()) : whyNoBox(tensor, load.getType());
}

bool mirage::block::isBox(LoadOp load) { return !whyNoBox(load); }

bool mirage::block::canGatherAsync(GatherOp gather) {
  constexpr int64_t piece = 16;
  auto table = cast<RankedTensorType>(gather.getTable().getType());
  ArrayRef<int64_t> tile = gather.getType().getShape();
  int64_t bytes = table.getElementType().getIntOrFloatBitWidth() / 8;
  if (table.getElementType() != gather.getType().getElementType() ||
      table.getShape().back() * bytes % piece || tile.back() * bytes % piece)
    return false;
  TileType matrix = getTile(getMatrix(gather.getResult()));
  return matrix.getRank() == 2 && matrix.getShape()[1] == tile.back();
}

/// If a tile is a part of one row of a table, this part as a tile of the table.
static TileType getPartOfRow(GatherOp gather) {
  size_t rank = cast<RankedTensorType>(gather.getIndices().getType()).getRank();
  ArrayRef<int64_t> tile = gather.getType().getShape();
  if (llvm::any_of(tile.take_front(rank), [](int64_t extent) { return extent > 1; }))
    return {};
  SmallVector<int64_t> part = {1};
  llvm::append_range(part, tile.drop_front(rank));
  return TileType::get(part, gather.getType().getElementType());
}

bool mirage::block::isBoxOfRow(GatherOp gather) {
  TileType part = getPartOfRow(gather);
  auto table = cast<RankedTensorType>(gather.getTable().getType());
  return part && canGatherAsync(gather) && !whyNoBox(table, part);
}

bool mirage::block::canFillRing(GatherOp gather) {
  if (!canGatherAsync(gather))
    return false;
  ArrayRef<int64_t> matrix = getTile(getMatrix(gather.getResult())).getShape();
  return matrix[0] == 1 ||
         getSharedType(matrix[0], matrix[1], gather.getType().getElementType()).getSwizzle();
}

static kernel::TensorMapAttr getBox(unsigned parameter, TileType tile, SharedType held,
                                    bool tf32 = false) {
  SmallVector<int64_t> box(tile.getShape());
  if (held.getSwizzle())
    box.back() = std::min(box.back(), held.getSwizzle() / held.getElementBytes());
  return kernel::TensorMapAttr::get(tile.getContext(), parameter, box, held.getSwizzle(), tf32);
}

bool mirage::block::onlyFeedsTf32(Value value) {
  return llvm::all_of(value.getUsers(), [](Operation *user) {
    if (auto matmul = dyn_cast<MatmulOp>(user))
      return matmul.getTf32();
    return isa<ReshapeOp, TransposeOp>(user) && onlyFeedsTf32(user->getResult(0));
  });
}

kernel::TensorMapAttr mirage::block::getTensorMap(LoadOp load) {
  TileType tile = load.getType();
  SmallVector<int64_t> part(tile.getShape());
  if (int64_t sharers = getSharers(load); sharers > 1)
    part[getPartDim(tile)] /= sharers;
  if (isShifted(load)) {
    auto tensor = cast<RankedTensorType>(load.getSource().getType());
    part.erase(part.end() - getJoinedDims(tensor, tile), part.end() - 1);
  }
  return getBox(cast<BlockArgument>(load.getSource()).getArgNumber(),
                TileType::get(part, tile.getElementType()), getShared(load.getResult()),
                /*tf32=*/onlyFeedsTf32(load.getResult()));
}

kernel::TensorMapAttr mirage::block::getTensorMap(GatherOp gather) {
  return getBox(cast<BlockArgument>(gather.getTable()).getArgNumber(), getPartOfRow(gather),
                getShared(gather.getResult()));
}

/// Whether each of several groups of four warps owns 64 rows in a row of a tile, and all of
/// their columns.
static bool groupsOwnRows(const thread::LinearLayout &layout, int64_t groups) {
  ArrayRef<thread::Coord> warp = layout.getWarp();
  if (groups < 2 || layout.getExtent(0) != thread::kGroupRows * groups ||
      layout.getRepeat()[0] != 1)
    return false;
  auto isBelow = [](thread::Coord vector) {
    return vector.row < thread::kGroupRows && vector.col == 0;
  };
  int32_t row = thread::kGroupRows;
  for (thread::Coord vector : warp.drop_front(2)) {
    if (vector.row != row || vector.col != 0)
      return false;
    row *= 2;
  }
  return llvm::all_of(warp.take_front(2), isBelow) && row == layout.getExtent(0);
}

std::optional<BoxStore> mirage::block::getBoxStore(StoreOp store, unsigned number) {
  auto launch = cast<kernel::LaunchOp>(store->getParentOp());
  if (launch.getPlace(number))
    return std::nullopt;
  Value value = store.getTiles()[number], matrix = stripReshape(value);
  auto tensor = cast<RankedTensorType>(launch.getResult(number).getType());
  thread::FragmentType fragment = getFragment(matrix);
  TileType tile = getTile(value), shape = getTile(matrix);
  bool isWhole = shape.getRank() == 2 && fragment.getRows() == shape.getShape()[0] &&
                 fragment.getCols() == shape.getShape()[1] &&
                 tile.getShape().back() == shape.getShape()[1] && shape.getShape()[0] > 1;
  if (!isWhole || fragment.getPartial() ||
      getTileElement(tensor.getElementType()) != tensor.getElementType() || whyNoBox(tensor, tile))
    return std::nullopt;
  // One of the blocks that hold the same tile would have to be chosen.
  auto map = cast<ArrayAttr>(store.getMaps()[number]);
  for (auto [name, extent] : llvm::zip_equal(launch.getGridNames(), launch.getGridExtents()))
    if (extent > 1 && llvm::none_of(map, [&, axis = name](Attribute axes) {
          return llvm::is_contained(cast<ArrayAttr>(axes), axis);
        }))
      return std::nullopt;
  SharedType held =
      getSharedType(shape.getShape()[0], shape.getShape()[1], tensor.getElementType());
  BoxStore box{held, getBox(launch->getNumOperands() + number, tile, held)};
  if (launch.getSchedule()->getResident() &&
      groupsOwnRows(fragment.getLinearLayout(), launch.getSchedule()->getWarps() / 4)) {
    SmallVector<int64_t> part(box.map.getBox());
    *llvm::find(part, fragment.getRows()) = thread::kGroupRows;
    box.map = kernel::TensorMapAttr::get(box.map.getContext(), box.map.getParameter(), part,
                                         box.map.getSwizzle(), box.map.getTf32());
    box.byGroups = true;
  }
  return box;
}

StoreParts mirage::block::getStoreParts(const BoxStore &box, thread::FragmentType whole) {
  using thread::Coord, thread::LinearLayout;
  const LinearLayout &layout = whole.getLinearLayout();
  int64_t cols = box.map.getBox().back(), count = box.tile.getCols() / cols;
  auto isWithin = [&](Coord vector) { return vector.col < cols; };
  if (count == 1 || !llvm::all_of(layout.getLane(), isWithin) ||
      !llvm::all_of(layout.getWarp(), isWithin))
    return {SharedType::get({1, box.tile.getRows(), box.tile.getCols()}, whole.getElementType(),
                            box.tile.getSwizzle(), box.tile.getPad()),
            whole, 1};
  LinearLayout::Basis reg;
  llvm::copy_if(layout.getReg(), std::back_inserter(reg), isWithin);
  LinearLayout part(reg, LinearLayout::Basis(layout.getLane()),
                    LinearLayout::Basis(layout.getWarp()), {layout.getRepeat()[0], 1});
  return {SharedType::get({2, box.tile.getRows(), cols}, whole.getElementType(),
                          box.tile.getSwizzle(), 0),
          thread::FragmentType::get(whole.getElementType(), part), count};
}
