//===- ClusterSplit.cpp - how blocks share one position of the grid -------===//

#include "mirage/Dialect/Block/Analysis/ClusterSplit.h"

#include "mirage/Dialect/Block/Analysis/HeldTile.h"

using namespace mlir;
using namespace mirage;
using namespace mirage::block;

static ArrayRef<int64_t> shapeOf(Value value) {
  auto tile = dyn_cast<TileType>(value.getType());
  return tile ? tile.getShape() : ArrayRef<int64_t>();
}

/// The most numbers of a total: each block writes them to all others.
static constexpr int64_t kMostNumbers = 64;

static bool isSmall(Value total) { return llvm::product_of(shapeOf(total)) <= kMostNumbers; }

ClusterSplit::ClusterSplit(kernel::LaunchOp launch, int64_t blocks)
    : launch(launch), blocks(blocks) {
  for (Operation &op : launch.getBody().front())
    connect(&op);
  if (launch.getPlaces())
    refuse("results with memory of their own");
  chooseCuts();
  if (reason)
    return;
  for (auto loop : launch.getBody().getOps<LoopOp>())
    if (canShare(loop))
      shared.insert(loop);
  checkCuts();
}

void ClusterSplit::refuse(const Twine &expected) {
  if (!reason)
    reason = expected.str();
}

void ClusterSplit::join(Dim a, Dim b) {
  if (shapeOf(a.first)[a.second] > 1)
    classes.unionSets(a, b);
}

void ClusterSplit::connect(Operation *op) {
  for (Value value : op->getResults())
    for (unsigned dim = 0; dim < shapeOf(value).size(); ++dim)
      classes.insert({value, dim});
  if (auto load = dyn_cast<LoadOp>(op)) {
    Value same =
        loads.try_emplace({load.getSource(), load.getMap()}, load.getResult()).first->second;
    if (same.getType() == load.getType())
      for (unsigned dim = 0; dim < shapeOf(same).size(); ++dim)
        join({same, dim}, {load.getResult(), dim});
    return;
  }
  if (auto reshape = dyn_cast<ReshapeOp>(op)) {
    // Their dimensions above 1 are the same ones.
    unsigned to = 0;
    ArrayRef<int64_t> result = shapeOf(reshape.getResult());
    for (auto [from, size] : llvm::enumerate(shapeOf(reshape.getInput()))) {
      if (size == 1)
        continue;
      while (result[to] == 1)
        ++to;
      join({reshape.getInput(), from}, {reshape.getResult(), to++});
    }
    return;
  }
  if (!isElementwise(op) && !isa<ReduceOp, TransposeOp>(op))
    return;
  auto tile = cast<TileOpInterface>(op);
  for (auto [number, operand] : llvm::enumerate(op->getOperands()))
    for (unsigned dim = 0; dim < shapeOf(operand).size(); ++dim)
      if (std::optional<unsigned> to = tile.getResultDim(number, dim))
        join({operand, dim}, {op->getResult(0), *to});
}

/// The longest dimension of each tile that is stored, the last one of those.
void ClusterSplit::chooseCuts() {
  for (Value tile : cast<StoreOp>(launch.getBody().front().getTerminator()).getTiles()) {
    ArrayRef<int64_t> shape = shapeOf(tile);
    unsigned longest = 0;
    for (unsigned dim = 1; dim < shape.size(); ++dim)
      if (shape[dim] >= shape[longest])
        longest = dim;
    if (shape.empty() || shape[longest] % blocks)
      return refuse("stored tiles of a multiple of " + Twine(blocks) + " along a dimension");
    if (!classes.contains({tile, longest}))
      return refuse("stored tiles that are computed");
    cuts.insert(classes.getLeaderValue({tile, longest}));
  }
}

std::optional<unsigned> ClusterSplit::getCutDim(Value tile) const {
  for (unsigned dim = 0; dim < shapeOf(tile).size(); ++dim)
    if (classes.contains({tile, dim}) && cuts.contains(classes.getLeaderValue({tile, dim})))
      return dim;
  return std::nullopt;
}

bool ClusterSplit::isPartial(ReduceOp reduce) const {
  std::optional<unsigned> cut = getCutDim(reduce.getInput());
  return cut && llvm::is_contained(reduce.getDims(), int64_t(*cut));
}

void ClusterSplit::checkCuts() {
  bool exchanges = !shared.empty();
  for (Operation &op : launch.getBody().front()) {
    checkUses(&op);
    auto reduce = dyn_cast<ReduceOp>(op);
    if (!reduce || !isPartial(reduce))
      continue;
    exchanges = true;
    if (!isSmall(reduce.getResult()))
      refuse("totals of at most " + Twine(kMostNumbers) + " numbers");
  }
  if (!exchanges)
    refuse("totals along what is stored, or over steps of loops in a multiple of " + Twine(blocks));
}

/// Whether the op can work on a part of a tile.
void ClusterSplit::checkUses(Operation *op) {
  for (Value value : op->getResults()) {
    std::optional<unsigned> first = getCutDim(value);
    if (!first)
      continue;
    for (unsigned dim = *first + 1; dim < shapeOf(value).size(); ++dim)
      if (cuts.contains(classes.getLeaderValue({value, dim})))
        return refuse("tiles of which one dimension is cut, got one with two");
    bool isKnown = isa<LoadOp, ReshapeOp, ReduceOp, TransposeOp>(op) || isElementwise(op);
    if (!isKnown)
      return refuse("loads, movements, totals and elementwise ops on what is stored, got '" +
                    op->getName().getStringRef() + "'");
  }
  bool takesParts = isa<ReshapeOp, ReduceOp, TransposeOp, StoreOp>(op) || isElementwise(op);
  op->walk([&](Operation *inner) {
    for (Value operand : inner->getOperands())
      if (getCutDim(operand) && (inner != op || !takesParts))
        refuse("loads, movements, totals and elementwise ops on what is stored, got '" +
               inner->getName().getStringRef() + "'");
  });
}

/// The maximum of all steps by which a sum is rescaled is an accumulator as well.
static bool isMaximumOfAll(Value value) {
  auto running = value.getDefiningOp<RunningMaxOp>();
  if (!running)
    return false;
  auto accumulate = cast<AccumulateOp>(running->getBlock()->getTerminator());
  for (auto [number, kept] : llvm::enumerate(accumulate.getValues()))
    if (kept == value && accumulate.getFn(number) == AccumulateFn::Last)
      return true;
  return false;
}

bool ClusterSplit::canShare(LoopOp loop) const {
  if (loop.getExtent() % blocks || loop.getSteps() || !llvm::all_of(loop.getResults(), isSmall))
    return false;
  for (Operation &op : loop.getBody().front()) {
    bool isPlain = isElementwise(&op) && !isa<IotaOp, MapIntegersOp>(op);
    if (!isPlain &&
        !isa<LoadOp, ConstantOp, ReduceOp, MatmulOp, TransposeOp, ReshapeOp, AccumulateOp>(op))
      return false;
  }
  auto accumulate = cast<AccumulateOp>(loop.getBody().front().getTerminator());
  for (auto [number, value] : llvm::enumerate(accumulate.getValues())) {
    Value rescale = accumulate.getRescale(number);
    bool isLast = accumulate.getFn(number) == AccumulateFn::Last;
    if ((isLast && !value.getDefiningOp<RunningMaxOp>()) || (rescale && !isMaximumOfAll(rescale)))
      return false;
  }
  return true;
}
