//===- OverlappingTiles.cpp - last tiles that begin earlier ---------------===//

#include "mirage/Dialect/Block/Analysis/OverlappingTiles.h"

#include "mirage/Dialect/Block/IR/Block.h"

using namespace mlir;
using namespace mirage;
using namespace mirage::block;

namespace {
/// Follows the rows that an axis cuts from loads to stores.
class CutRows {
public:
  CutRows(kernel::LaunchOp launch, StringRef axis) : launch(launch), axis(axis) {}

  bool reachResults() {
    WalkResult walk = launch.getBody().walk<WalkOrder::PreOrder>(
        [&](Operation *op) { return WalkResult(success(visit(op))); });
    return !walk.wasInterrupted() && tileRows > 0;
  }

  /// Whether tiles do not divide the tensors. Precondition: they reach the results.
  bool leavesRest() const { return tensorRows % tileRows != 0; }

private:
  bool names(Attribute attribute) const {
    return attribute
        .walk([&](StringAttr name) {
          return name.getValue() == axis ? WalkResult::interrupt() : WalkResult::advance();
        })
        .wasInterrupted();
  }

  /// Whether a map cuts a tensor along one dimension, only by this axis, into the same number of
  /// rows as all other maps; that dimension, or nullopt if it does not cut the tensor.
  bool getCut(ArrayAttr map, TileType tile, RankedTensorType tensor, std::optional<unsigned> &cut) {
    for (auto [dim, axes] : llvm::enumerate(map)) {
      if (!names(axes))
        continue;
      int64_t rows = tile.getShape()[dim], all = tensor.getDimSize(dim);
      if (cut || cast<ArrayAttr>(axes).size() != 1 || rows == 1 || rows > all)
        return false;
      // Along rows in memory, a copy begins at a multiple of this number of bits.
      constexpr int64_t copyAlign = 128;
      int64_t bits = tensor.getElementTypeBitWidth();
      if (dim + 1 == map.size() && (all - rows) * bits % copyAlign)
        return false;
      if (tileRows > 0 && (tileRows != rows || tensorRows != all))
        return false;
      tileRows = rows;
      tensorRows = all;
      cut = dim;
    }
    return true;
  }

  bool visit(Operation *op) {
    if (auto load = dyn_cast<LoadOp>(op)) {
      std::optional<unsigned> cut;
      if (!getCut(load.getMap(), load.getType(), load.getSource().getType(), cut))
        return false;
      if (cut)
        rowsOf[load.getResult()] = *cut;
      return true;
    }
    if (auto store = dyn_cast<StoreOp>(op))
      return visitStore(store);
    if (names(op->getAttrDictionary()))
      return false;
    if (auto accumulate = dyn_cast<AccumulateOp>(op))
      return visitAccumulate(accumulate);
    if (auto reshape = dyn_cast<ReshapeOp>(op))
      return visitReshape(reshape);
    auto tile = dyn_cast<TileOpInterface>(op);
    for (OpOperand &use : op->getOpOperands()) {
      auto found = rowsOf.find(use.get());
      if (found == rowsOf.end())
        continue;
      std::optional<unsigned> to;
      if (tile)
        to = tile.getResultDim(use.getOperandNumber(), found->second);
      if (!to || !mark(op->getResult(0), *to))
        return false;
    }
    return true;
  }

  /// A value has these rows along one dimension only.
  bool mark(Value value, unsigned dim) {
    if (cast<TileType>(value.getType()).getShape()[dim] != tileRows)
      return false;
    auto [found, isNew] = rowsOf.try_emplace(value, dim);
    return isNew || found->second == dim;
  }

  bool visitAccumulate(AccumulateOp op) {
    for (auto [index, value] : llvm::enumerate(op.getValues())) {
      auto found = rowsOf.find(value);
      Value rescale = op.getRescale(index);
      auto factor = rescale ? rowsOf.find(rescale) : rowsOf.end();
      if (found == rowsOf.end()) {
        if (factor != rowsOf.end())
          return false;
        continue;
      }
      if (factor != rowsOf.end() && factor->second != found->second)
        return false;
      unsigned dim = found->second;
      if (!mark(op->getParentOp()->getResult(index), dim))
        return false;
    }
    return true;
  }

  /// Dimensions of size 1 come and go.
  bool visitReshape(ReshapeOp op) {
    auto found = rowsOf.find(op.getInput());
    if (found == rowsOf.end())
      return true;
    auto getLarge = [](Value value) {
      SmallVector<unsigned> dims;
      for (auto [dim, extent] : llvm::enumerate(cast<TileType>(value.getType()).getShape()))
        if (extent > 1)
          dims.push_back(dim);
      return dims;
    };
    SmallVector<unsigned> from = getLarge(op.getInput()), to = getLarge(op.getResult());
    if (from.size() != to.size())
      return false;
    ArrayRef<int64_t> before = cast<TileType>(op.getInput().getType()).getShape();
    ArrayRef<int64_t> after = cast<TileType>(op.getResult().getType()).getShape();
    std::optional<unsigned> dim;
    for (auto [source, target] : llvm::zip_equal(from, to)) {
      if (before[source] != after[target])
        return false;
      if (source == found->second)
        dim = target;
    }
    return dim && mark(op.getResult(), *dim);
  }

  /// The axis cuts all results along the dimension in which their tiles have the rows.
  bool visitStore(StoreOp op) {
    for (auto [number, value] : llvm::enumerate(op.getTiles())) {
      std::optional<unsigned> cut;
      auto found = rowsOf.find(value);
      if (!getCut(cast<ArrayAttr>(op.getMaps()[number]), cast<TileType>(value.getType()),
                  cast<RankedTensorType>(launch.getResult(number).getType()), cut) ||
          !cut || found == rowsOf.end() || found->second != *cut)
        return false;
    }
    return true;
  }

  kernel::LaunchOp launch;
  StringRef axis;
  /// The extents of a tile and of a tensor.
  int64_t tileRows = 0, tensorRows = 0;
  /// The dimension of a tile that has rows which the axis cuts.
  llvm::DenseMap<Value, unsigned> rowsOf;
};
} // namespace

bool mirage::block::lastTileMayOverlap(kernel::LaunchOp launch, StringRef axis) {
  return !launch.getPlaces() && CutRows(launch, axis).reachResults();
}

bool mirage::block::computesRowsTwice(kernel::LaunchOp launch) {
  return !launch.getPlaces() && llvm::any_of(launch.getGridNames(), [&](Attribute axis) {
    CutRows rows(launch, cast<StringAttr>(axis).getValue());
    return rows.reachResults() && rows.leavesRest();
  });
}
