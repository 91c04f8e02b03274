//===- LayoutModel.cpp - layout assignment as a problem -------------------===//

#include "mirage/Dialect/Block/Analysis/LayoutModel.h"

#include "mirage/Dialect/Block/Analysis/LayoutCosts.h"
#include "mirage/Dialect/Block/Analysis/WarpgroupProducts.h"
#include "mirage/Target/Staging.h"
#include "mirage/Target/WarpSharing.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mirage;
using namespace mirage::block;
using thread::Coord;
using thread::LinearLayout;

//===----------------------------------------------------------------------===//
// Helpers
//===----------------------------------------------------------------------===//

LinearLayout mirage::block::reduceLayout(LinearLayout layout, ArrayRef<int64_t> dims) {
  for (int64_t dim : dims)
    layout = layout.reduce(dim);
  return layout;
}

SmallVector<int64_t> mirage::block::getBroadcastDims(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  SmallVector<int64_t> dims;
  for (int64_t dim : {0, 1})
    if (from[dim] != to[dim])
      dims.push_back(dim);
  return dims;
}

bool mirage::block::canStayPartial(Value value) {
  return llvm::all_of(value.getUses(), [&](OpOperand &use) {
    auto accumulate = dyn_cast<AccumulateOp>(use.getOwner());
    if (!accumulate)
      return false;
    for (auto [index, accumulated] : llvm::enumerate(accumulate.getValues()))
      if (accumulated == value && accumulate.getFn(index) != AccumulateFn::Sum)
        return false;
    return !llvm::is_contained(accumulate.getRescales(), value);
  });
}

/// `layout` for more warps; the further ones hold copies.
static LinearLayout addCopies(const LinearLayout &layout, int64_t numWarps) {
  LinearLayout::Basis warp(layout.getWarp());
  warp.resize(llvm::Log2_64(numWarps));
  return LinearLayout(LinearLayout::Basis(layout.getReg()), LinearLayout::Basis(layout.getLane()),
                      warp, layout.getRepeat());
}

LinearLayout MatmulModel::getResult(const WarpGrid &grid, int64_t numWarps) const {
  if (warpgroup)
    return thread::wgmmaResultLayout(m, n, grid);
  LinearLayout layout = addCopies(thread::mmaResultLayout(m, n, grid), numWarps);
  return swapped ? layout.transpose() : layout;
}

LinearLayout MatmulModel::getOperand(int64_t index, const WarpGrid &grid, int64_t numWarps) const {
  if (warpgroup)
    return thread::wgmmaLhsLayout(m, k, grid);
  bool isLhs = (index == 0) != swapped;
  LinearLayout layout = isLhs ? thread::mmaLhsLayout(m, k, elementBytes, grid)
                              : thread::mmaRhsLayout(k, n, elementBytes, grid);
  layout = addCopies(layout, numWarps);
  return swapped ? layout.transpose() : layout;
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

LayoutModel::LayoutModel(kernel::LaunchOp launch, const PaddingAnalysis &padding, int64_t numWarps,
                         const ValueSet &staged, int64_t maxSharedBytes)
    : launch(launch), padding(padding), numWarps(numWarps), staged(staged),
      maxSharedBytes(maxSharedBytes) {
  launch.getBody().walk([&](Operation *op) { group(op); });
  makeGroups();
  launch.getBody().walk([&](MatmulOp op) { addMatmul(op); });
  addCandidates();
  shareCandidates();
  for (const LayoutGroup &entry : groups)
    problem.variables.push_back({std::vector<double>(entry.candidates.size(), 0)});
  for (const MatmulModel &matmul : matmuls)
    problem.variables.push_back({std::vector<double>(matmul.grids.size(), 0)});
  addUnaryCosts();
  launch.getBody().walk([&](Operation *op) { addEdges(op); });
  for (auto [index, matmul] : llvm::enumerate(matmuls))
    addMatmulEdges(matmul, groups.size() + index);
}

/// Whether a loop's result is a sum of products, of a launch of warpgroups.
static bool isSumOfWarpgroups(Value value) {
  auto loop = value.getDefiningOp<LoopOp>();
  if (!loop || !loop->getParentOfType<kernel::LaunchOp>().getSchedule()->usesWarpgroups())
    return false;
  auto accumulate = cast<AccumulateOp>(loop.getBody().front().getTerminator());
  Value sum = accumulate.getValues()[cast<OpResult>(value).getResultNumber()];
  return sum.getDefiningOp<MatmulOp>() != nullptr;
}

void LayoutModel::group(Operation *op) {
  for (Value value : op->getResults())
    if (isa<TileType>(value.getType()) && !isScalar(value) && getTile(value).getRank() == 2 &&
        !staged.contains(value))
      classes.insert(value);
  auto join = [&](Value operand, Value result) {
    if (isScalar(operand) || staged.contains(operand) ||
        getTile(operand).getShape() != getTile(result).getShape())
      return;
    // Values that leave or enter a loop may change their layout on the way; sums of warpgroups'
    // products, for which there is little room in addition to the rings, do so when they are
    // stored.
    Operation *def = operand.getDefiningOp();
    if (def->getBlock() == op->getBlock() && (!isa<LoopOp>(def) || isSumOfWarpgroups(operand)))
      classes.unionSets(operand, result);
  };
  if (isElementwise(op, /*repeats=*/false))
    for (Value operand : op->getOperands())
      join(operand, op->getResult(0));
  if (auto accumulate = dyn_cast<AccumulateOp>(op))
    for (auto [value, result] :
         llvm::zip_equal(accumulate.getValues(), op->getParentOp()->getResults()))
      if (!staged.contains(value))
        classes.unionSets(value, result);
}

void LayoutModel::makeGroups() {
  DenseMap<Value, size_t> byLeader;
  launch.getBody().walk([&](Operation *op) {
    for (Value value : op->getResults()) {
      if (!isa<TileType>(value.getType()) || !classes.contains(value))
        continue;
      auto [it, isNew] = byLeader.try_emplace(classes.getLeaderValue(value), groups.size());
      if (isNew)
        groups.push_back({padding.getExtent(value, 0), padding.getExtent(value, 1), {}, {}});
      groups[it->second].members.push_back(value);
      groupOf[value] = it->second;
    }
  });
}

void LayoutModel::addMatmul(MatmulOp op) {
  MatmulModel model;
  model.op = op;
  model.warpgroup = launch.getSchedule()->usesWarpgroups();
  model.swapped = !model.warpgroup && prefersSwapped(op);
  Value result = op.getResult();
  model.m = padding.getExtent(result, model.swapped ? 1 : 0);
  model.n = padding.getExtent(result, model.swapped ? 0 : 1);
  model.k = padding.getExtent(op.getLhs(), 1);
  model.elementBytes = getTile(op.getLhs()).getElementType().getIntOrFloatBitWidth() / 8;
  if (model.warpgroup) {
    llvm::append_range(model.grids, getWarpgroupGrids(model.m, model.n, numWarps));
    matmuls.push_back(std::move(model));
    return;
  }
  for (const WarpGrid &grid : getWarpGrids(model.getProduct(), numWarps)) {
    // After the loop the summands have the shared memory to themselves.
    int64_t exchanged = grid.k * model.m * (model.n + exchangePad) * 4;
    if (grid.k == 1 || exchanged <= (canStayPartial(result) ? maxSharedBytes : maxSharedBytes / 4))
      model.grids.push_back(grid);
  }
  matmuls.push_back(std::move(model));
}

//===----------------------------------------------------------------------===//
// Candidates
//===----------------------------------------------------------------------===//

static void addCandidate(LayoutGroup &group, const LinearLayout &layout) {
  constexpr size_t maxCandidates = 64;
  if (group.fixed || layout.getExtent(0) != group.rows || layout.getExtent(1) != group.cols ||
      group.candidates.size() >= maxCandidates || llvm::is_contained(group.candidates, layout))
    return;
  group.candidates.push_back(layout);
}

/// The dimension along which an op depends on the order of elements; none for other ops (or null).
static std::optional<int64_t> getScannedDim(Operation *op) {
  if (auto cumulate = dyn_cast_or_null<CumulateOp>(op))
    return cumulate.getDim();
  if (auto argsort = dyn_cast_or_null<ArgsortOp>(op))
    return argsort.getDim();
  return std::nullopt;
}

void LayoutModel::addCandidates() {
  for (const MatmulModel &matmul : matmuls)
    for (const WarpGrid &grid : matmul.grids) {
      MatmulOp op = matmul.op;
      if (groupOf.count(op.getResult()))
        addCandidate(groups[groupOf[op.getResult()]], matmul.getResult(grid, numWarps));
      for (int64_t index : {0, 1})
        if (groupOf.count(op->getOperand(index)))
          addCandidate(groups[groupOf[op->getOperand(index)]],
                       matmul.getOperand(index, grid, numWarps));
    }
  for (const MatmulModel &matmul : matmuls)
    if (matmul.warpgroup)
      groups[groupOf[MatmulOp(matmul.op).getResult()]].fixed = true;
  for (LayoutGroup &entry : groups)
    for (int64_t vector : {8, 4, 2, 1}) {
      for (Value value : entry.members)
        if (std::optional<int64_t> dim = getScannedDim(value.getDefiningOp()))
          addCandidate(entry, thread::scanLayout(entry.rows, entry.cols, *dim, vector, numWarps));
      addCandidate(entry, thread::rowLayout(entry.rows, entry.cols, 1, vector, numWarps));
      addCandidate(entry, thread::blockedLayout(entry.rows, entry.cols, vector, numWarps));
      if (entry.rows > 1)
        addCandidate(entry,
                     thread::rowLayout(entry.cols, entry.rows, 1, vector, numWarps).transpose());
    }
}

/// Gives groups that exchange tiles each other's layouts as candidates, so that equal ones can be
/// chosen.
void LayoutModel::shareCandidates() {
  auto offer = [&](Value from, Value to, const LayoutFn &map) {
    if (!groupOf.count(from) || !groupOf.count(to) || groupOf[from] == groupOf[to])
      return;
    std::vector<LinearLayout> candidates = groups[groupOf[from]].candidates;
    for (const LinearLayout &layout : candidates)
      addCandidate(groups[groupOf[to]], map(layout));
  };
  auto same = [](const LinearLayout &layout) { return layout; };
  auto visit = [&](Operation *op) {
    if (isElementwise(op)) {
      Value result = op->getResult(0);
      for (Value operand : op->getOperands()) {
        if (isScalar(operand))
          continue;
        SmallVector<int64_t> dims =
            getBroadcastDims(getTile(operand).getShape(), getTile(result).getShape());
        offer(result, operand,
              [&](const LinearLayout &layout) { return reduceLayout(layout, dims); });
        if (dims.empty())
          offer(operand, result, same);
      }
    } else if (auto reduce = dyn_cast<ReduceOp>(op)) {
      offer(reduce.getInput(), reduce.getResult(),
            [&](const LinearLayout &layout) { return reduceLayout(layout, reduce.getDims()); });
    } else if (isa<ConvertLayoutOp, CumulateOp, ArgsortOp>(op)) {
      offer(op->getOperand(0), op->getResult(0), same);
      if (getScannedDim(op))
        offer(op->getResult(0), op->getOperand(0), same);
    } else if (auto transpose = dyn_cast<TransposeOp>(op)) {
      auto swap = [](const LinearLayout &layout) { return layout.transpose(); };
      offer(transpose.getInput(), transpose.getResult(), swap);
      offer(transpose.getResult(), transpose.getInput(), swap);
    } else if (auto accumulate = dyn_cast<AccumulateOp>(op)) {
      for (auto [index, value] : llvm::enumerate(accumulate.getValues()))
        if (Value rescale = accumulate.getRescale(index)) {
          SmallVector<int64_t> dims =
              getBroadcastDims(getTile(rescale).getShape(), getTile(value).getShape());
          offer(value, rescale,
                [&](const LinearLayout &layout) { return reduceLayout(layout, dims); });
        }
    }
  };
  for (int round = 0; round < 2; ++round)
    launch.getBody().walk(visit);
}

//===----------------------------------------------------------------------===//
// Reading a solution
//===----------------------------------------------------------------------===//

const MatmulModel &LayoutModel::getMatmul(MatmulOp op) const {
  return *llvm::find_if(matmuls, [&](const MatmulModel &model) { return model.op == op; });
}

WarpGrid LayoutModel::getGrid(MatmulOp op, ArrayRef<size_t> choices) const {
  const MatmulModel &model = getMatmul(op);
  return model.grids[choices[groups.size() + (&model - matmuls.data())]];
}

const LinearLayout &LayoutModel::getLayout(Value value, ArrayRef<size_t> choices) const {
  size_t group = groupOf.lookup(value);
  return groups[group].candidates[choices[group]];
}
