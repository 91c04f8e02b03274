//===- ShiftedBoxes.cpp - boxes of rows that start at any element ---------===//

#include "mirage/Dialect/Block/Analysis/ShiftedBoxes.h"

#include "mirage/Dialect/Block/Analysis/Boxes.h"
#include "mirage/Dialect/Block/Analysis/HeldTile.h"
#include "mirage/Dialect/Block/Analysis/ProductPhases.h"
#include "mirage/Dialect/Block/Analysis/WarpgroupProducts.h"
#include "mirage/Target/Staging.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mirage;
using namespace mirage::block;

static RankedTensorType getTensor(LoadOp load) {
  return cast<RankedTensorType>(load.getSource().getType());
}

int64_t mirage::block::getJoinedDims(RankedTensorType tensor, TileType tile) {
  int64_t rank = tensor.getRank(), row = tensor.getElementTypeBitWidth() / 8;
  if (tensor.getEncoding())
    return 0;
  for (int64_t joined = 1; joined < rank; ++joined) {
    row *= tensor.getDimSize(rank - joined);
    if (row % boxRowUnit == 0)
      return joined;
    if (tile.getShape()[rank - joined - 1] != 1)
      return 0;
  }
  return 0;
}

std::optional<int64_t> mirage::block::getDimAlong(LoadOp load, StringRef axis) {
  for (auto [dim, axes] : llvm::enumerate(load.getMap()))
    if (llvm::any_of(cast<ArrayAttr>(axes),
                     [&](Attribute name) { return cast<StringAttr>(name).getValue() == axis; }))
      return int64_t(dim);
  return std::nullopt;
}

/// Whether the loop's steps are the tiles of the load's tensor along one dimension, from its
/// first element to its last one.
static bool takesTurns(LoadOp load, LoopOp loop) {
  std::optional<int64_t> dim = getDimAlong(load, loop.getAxis());
  return dim && cast<ArrayAttr>(load.getMap()[*dim]).size() == 1 &&
         int64_t(loop.getExtent()) == int64_t(llvm::divideCeil(getTensor(load).getDimSize(*dim),
                                                               load.getType().getShape()[*dim]));
}

/// Whether the product contracts the dimensions of the loads' tiles that the loop's steps cut.
static bool contractsSteps(MatmulOp product, LoopOp loop) {
  for (auto [factor, along] : {std::pair(product.getLhs(), 1), std::pair(product.getRhs(), 0)}) {
    int64_t dim = getTile(factor).getRank() - 2 + along;
    std::optional<std::pair<LoadOp, int64_t>> source = getDimOfLoad(factor, dim);
    if (!source || source->first->getParentOp() != loop ||
        getDimAlong(source->first, loop.getAxis()) != source->second)
      return false;
  }
  return isOnlySummed(product);
}

/// Whether the loop does nothing but sum products of the tiles that its steps cut.
static bool onlySumsProducts(LoopOp loop) {
  if (loop.getSteps())
    return false;
  return llvm::all_of(loop.getBody().front(), [&](Operation &op) {
    if (auto product = dyn_cast<MatmulOp>(op))
      return contractsSteps(product, loop);
    if (auto load = dyn_cast<LoadOp>(op))
      return takesTurns(load, loop);
    if (auto accumulate = dyn_cast<AccumulateOp>(op))
      return llvm::all_of(llvm::seq<int64_t>(0, accumulate.getValues().size()), [&](int64_t i) {
        return accumulate.getFn(i) == AccumulateFn::Sum && !accumulate.getRescale(i) &&
               accumulate.getValues()[i].getDefiningOp<MatmulOp>();
      });
    return isa<ReshapeOp, TransposeOp>(op);
  });
}

/// Whether a box of the load may begin some elements before any of its tiles.
static bool startsAnywhere(LoadOp load, LoopOp loop) {
  return !whyNoBox(getTensor(load), load.getType()) &&
         getDimAlong(load, loop.getAxis()) != getTensor(load).getRank() - 1;
}

LoadOp mirage::block::getShiftedLoad(LoopOp loop) {
  LoadOp found;
  for (auto load : loop.getBody().front().getOps<LoadOp>()) {
    if (startsAnywhere(load, loop))
      continue;
    bool isRow = getJoinedDims(getTensor(load), load.getType()) > 1 &&
                 getTensor(load).getElementType() == load.getType().getElementType() &&
                 getDimAlong(load, loop.getAxis()) == getTensor(load).getRank() - 1;
    if (found || !isRow)
      return {};
    found = load;
  }
  return found && onlySumsProducts(loop) ? found : LoadOp();
}

bool mirage::block::isShifted(LoadOp load) {
  auto loop = dyn_cast<LoopOp>(load->getParentOp());
  return loop && getShiftedLoad(loop) == load;
}
