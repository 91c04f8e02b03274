//===- LayoutModelCosts.cpp - what layouts cost ---------------------------===//

#include "mirage/Dialect/Block/Analysis/LayoutModel.h"

#include "mirage/Dialect/Block/Analysis/LayoutCosts.h"
#include "mirage/Target/Staging.h"
#include "mirage/Target/WarpSharing.h"

#include <functional>

using namespace mlir;
using namespace mirage;
using namespace mirage::block;
using thread::Coord;
using thread::LinearLayout;

static int64_t getElementBytes(Value value) {
  return getTile(value).getElementType().getIntOrFloatBitWidth() / 8;
}

/// Which matrix dimension of a load's or store's tile is contiguous in memory.
static int64_t getContiguousDim(TileType memoryTile, TileType matrix) {
  // The last dimension of the tensor is the matrix's columns unless the tile
  // has one element there but several columns.
  bool rows =
      memoryTile.getRank() > 0 && memoryTile.getShape().back() == 1 && matrix.getShape()[1] > 1;
  return rows ? 0 : 1;
}

/// Elements in memory from one row of a tile's matrix to the next, and from one column to the next,
/// if the tile has several of both but one element along the tensor's last dimension.
static std::optional<std::array<int64_t, 2>> getSteps(Type type, TileType memoryTile,
                                                      TileType matrix) {
  auto tensor = cast<RankedTensorType>(type);
  int64_t rank = memoryTile.getRank();
  if (rank != tensor.getRank() || rank == 0 || memoryTile.getShape().back() > 1)
    return std::nullopt;
  SmallVector<int64_t> strides = kernel::getStrides(tensor), steps;
  for (auto [size, stride] : llvm::zip_equal(memoryTile.getShape(), strides))
    if (size > 1)
      steps.push_back(stride);
  if (steps.size() != 2 || matrix.getShape()[0] == 1 || matrix.getShape()[1] == 1)
    return std::nullopt;
  return std::array<int64_t, 2>{steps[0], steps[1]};
}

/// Elements at multiples of which all rows of a tensor start: the largest vectors.
static int64_t getAlignedElements(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  if (tensor.getEncoding())
    return kernel::getRowAlign(tensor) * 8 / std::max(8u, tensor.getElementTypeBitWidth());
  int64_t row = tensor.getRank() > 0 ? tensor.getShape().back() : 1;
  return row & -row;
}

/// The cost of accessing the tile of a tensor from which `matrix` is made, or that is made from it.
static double getAccessCost(Type tensor, TileType memoryTile, TileType matrix, int64_t bytes,
                            const LinearLayout &layout) {
  std::optional<std::array<int64_t, 2>> steps = getSteps(tensor, memoryTile, matrix);
  if (!steps)
    return getGlobalAccessCost(layout, bytes, getContiguousDim(memoryTile, matrix),
                               getAlignedElements(tensor));
  for (int64_t dim : {1, 0}) {
    int64_t other = (*steps)[1 - dim];
    int64_t start = kernel::getStartAlign(cast<RankedTensorType>(tensor)) / bytes;
    if ((*steps)[dim] == 1)
      return getGlobalAccessCost(layout, bytes, dim, std::min(other & -other, start));
  }
  return getStridedAccessCost(layout, bytes, *steps);
}

/// The cost of loading the operands of exact arithmetic whose last dimension corresponds to that of
/// the result, where elements are neighbours in memory.
static double getOperandLoadCost(IntegersOp op, const LinearLayout &layout, int64_t along) {
  double cost = 0;
  IntegerFormula formula = op.getParsedFormula();
  for (auto [input, step] : llvm::zip(op.getInputs(), formula.getSteps()))
    if (step.kind == FormulaStep::Kind::Load && !step.args.empty() &&
        step.args.back() == int64_t(op.getShape().size()) - 1) {
      int64_t bits = cast<RankedTensorType>(input.getType()).getElementTypeBitWidth();
      cost += getGlobalAccessCost(layout, std::max<int64_t>(bits / 8, 1), along,
                                  getAlignedElements(input.getType()));
    }
  return cost;
}

/// The bytes of an element in memory: tiles of f32 and i64 hold numbers of narrower types, too.
static int64_t getStoredBytes(Type tensor) {
  return std::max<int64_t>(cast<RankedTensorType>(tensor).getElementTypeBitWidth() / 8, 1);
}

/// The cost of reading the tile `value`, possibly in another shape, from device memory.
static double getLoadCost(Value value, const LinearLayout &layout) {
  Value source = stripReshape(value);
  Operation *read = source.getDefiningOp();
  int64_t along = getContiguousDim(getTile(source), getTile(value));
  if (auto integers = dyn_cast_if_present<IntegersOp>(read))
    return getOperandLoadCost(integers, layout, along);
  Value tensor;
  if (auto load = dyn_cast_if_present<LoadOp>(read))
    tensor = load.getSource();
  else if (auto gather = dyn_cast_if_present<GatherOp>(read))
    tensor = gather.getTable();
  else
    return 0;
  int64_t bytes = getStoredBytes(tensor.getType()), aligned = getAlignedElements(tensor.getType());
  return getAccessCost(tensor.getType(), getTile(source), getTile(value), bytes, layout) +
         getNarrowLoadCost(layout, bytes, along, aligned);
}

/// Work of an op on a tile, other than reading and writing it.
static double getTileWork(Operation *op, const LinearLayout &layout) {
  if (auto cumulate = dyn_cast<CumulateOp>(op))
    return getCumulationCost(layout, cumulate.getDim());
  if (auto argsort = dyn_cast<ArgsortOp>(op))
    return getSortingCost(layout, argsort.getDim());
  auto tile = dyn_cast<TileOpInterface>(op);
  return tile ? double(tile.getElementWork()) * layout.getNumRegisters() : 0;
}

void LayoutModel::addUnaryCosts() {
  for (auto [index, entry] : llvm::enumerate(groups))
    for (auto [choice, layout] : llvm::enumerate(entry.candidates)) {
      double cost = 0;
      for (Value value : entry.members) {
        Operation *op = value.getDefiningOp();
        double times = getTripCount(op->getBlock());
        cost += times * (getTileWork(op, layout) + getSpillCost(layout, getElementBytes(value)));
        if (isa<LoadOp, GatherOp, IntegersOp, ReshapeOp>(op))
          cost += times * getLoadCost(value, layout);
        for (OpOperand &use : value.getUses()) {
          Value stored = value;
          Operation *user = use.getOwner();
          unsigned number = use.getOperandNumber();
          if (auto reshape = dyn_cast<ReshapeOp>(user); reshape && !reshape->use_empty()) {
            stored = reshape.getResult();
            user = *reshape->getUsers().begin();
            number = reshape->getUses().begin()->getOperandNumber();
          }
          if (user->getNumResults() == 1 && isa<ConvertLayoutOp>(user) &&
              staged.contains(user->getResult(0)))
            cost += times * getSharedAccessCost(layout, getElementBytes(value));
          if (isa<StoreOp>(user)) {
            Type tensor = launch.getResult(number).getType();
            cost += getAccessCost(tensor, getTile(stored), getTile(value), getStoredBytes(tensor),
                                  layout);
          }
        }
        // Tiles in shared memory that this op reads.
        for (Value operand : op->getOperands())
          if (isa<TileType>(operand.getType()) && staged.contains(operand) &&
              !isa<MatmulOp, ReshapeOp>(op))
            cost += times * getSharedAccessCost(layout, getElementBytes(operand));
      }
      problem.variables[index].costs[choice] += cost;
    }
  for (auto [index, matmul] : llvm::enumerate(matmuls))
    for (auto [choice, grid] : llvm::enumerate(matmul.grids)) {
      MatmulOp op = matmul.op;
      double times = getTripCount(op->getBlock());
      if (matmul.warpgroup) {
        double m = double(matmul.m) / grid.m, n = double(matmul.n) / grid.n,
               k = double(matmul.k) / grid.k;
        // The bytes that the instructions of 64 rows read from shared memory, in units of 512.
        problem.variables[groups.size() + index].costs[choice] +=
            times * m / 64 * (64 + n) * k * matmul.elementBytes / 512;
        continue;
      }
      double cost = times * getProductCost(matmul.getProduct(), grid);
      cost += times * getSpillCost(matmul.getResult(grid, numWarps), 4);
      problem.variables[groups.size() + index].costs[choice] += cost;
    }
}

void LayoutModel::addFactor(size_t first, size_t second,
                            llvm::function_ref<double(size_t, size_t)> cost) {
  size_t rows = problem.variables[first].costs.size(),
         cols = problem.variables[second].costs.size();
  if (first == second) {
    for (size_t choice = 0; choice < rows; ++choice)
      problem.variables[first].costs[choice] += cost(choice, choice);
    return;
  }
  AssignmentProblem::Factor factor{first, second, std::vector<double>(rows * cols)};
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < cols; ++j)
      factor.costs[i * cols + j] = cost(i, j);
  problem.factors.push_back(std::move(factor));
}

/// Whether the warps may hold summands of the value: a loop's sum of values that may stay partial.
static bool mayBePartial(Value value) {
  auto loop = value.getDefiningOp<LoopOp>();
  if (!loop)
    return false;
  auto accumulate = cast<AccumulateOp>(loop.getBody().front().getTerminator());
  Value sum = accumulate.getValues()[cast<OpResult>(value).getResultNumber()];
  return sum.getDefiningOp() && isa<MatmulOp, ReduceOp>(sum.getDefiningOp()) && canStayPartial(sum);
}

/// A zero warp vector of a value that may be partial stands for summands.
static bool hasSummands(const LinearLayout &layout) {
  return llvm::any_of(layout.getWarp(), [](Coord vector) { return vector.isZero(); });
}

void LayoutModel::addConversion(Value from, LayoutFn fromMap, Value to, LayoutFn toMap,
                                std::function<double(const LinearLayout &)> fromCost,
                                double times) {
  if (!groupOf.count(from) || !groupOf.count(to))
    return;
  std::vector<LinearLayout> sources, targets;
  std::vector<double> costs;
  std::vector<bool> isSum;
  for (const LinearLayout &layout : groups[groupOf[from]].candidates) {
    sources.push_back(fromMap(layout));
    isSum.push_back(mayBePartial(from) && hasSummands(layout));
    costs.push_back(fromCost ? fromCost(layout) : 0);
  }
  for (const LinearLayout &layout : groups[groupOf[to]].candidates)
    targets.push_back(toMap(layout));
  addFactor(groupOf[from], groupOf[to], [&](size_t i, size_t j) {
    return times * (costs[i] + (isSum[i] ? getWarpSumCost(sources[i], targets[j])
                                         : getConversionCost(sources[i], targets[j])));
  });
}

void LayoutModel::addEdges(Operation *op) {
  auto same = [](const LinearLayout &layout) { return layout; };
  if (isElementwise(op)) {
    Value result = op->getResult(0);
    for (Value operand : op->getOperands()) {
      if (isScalar(operand) || staged.contains(operand))
        continue;
      SmallVector<int64_t> dims =
          getBroadcastDims(getTile(operand).getShape(), getTile(result).getShape());
      if (!dims.empty() || groupOf.lookup(operand) != groupOf.lookup(result))
        addConversion(
            operand, same, result,
            [dims](const LinearLayout &layout) { return reduceLayout(layout, dims); }, nullptr,
            getTripCount(operand.getParentBlock()));
    }
  } else if (auto reduce = dyn_cast<ReduceOp>(op)) {
    SmallVector<int64_t> dims(reduce.getDims());
    bool partial = reduce.getFn() == ReduceFn::Sum && canStayPartial(reduce.getResult());
    double times = getTripCount(op->getBlock());
    addConversion(
        reduce.getInput(),
        [dims](const LinearLayout &layout) { return reduceLayout(layout, dims); },
        reduce.getResult(), same,
        [dims, partial](const LinearLayout &layout) {
          double cost = 0;
          LinearLayout current = layout;
          for (int64_t dim : dims) {
            cost += getReductionCost(current, dim, partial);
            current = current.reduce(dim);
          }
          return cost;
        },
        times);
  } else if (isa<ConvertLayoutOp, CumulateOp, ArgsortOp>(op) &&
             !staged.contains(op->getOperand(0))) {
    addConversion(op->getOperand(0), same, op->getResult(0), same, nullptr,
                  getTripCount(op->getBlock()));
  } else if (auto transpose = dyn_cast<TransposeOp>(op)) {
    addConversion(
        transpose.getInput(), [](const LinearLayout &layout) { return layout.transpose(); },
        transpose.getResult(), same, nullptr, getTripCount(op->getBlock()));
  } else if (auto accumulate = dyn_cast<AccumulateOp>(op)) {
    for (auto [index, value] : llvm::enumerate(accumulate.getValues()))
      if (Value rescale = accumulate.getRescale(index)) {
        SmallVector<int64_t> dims =
            getBroadcastDims(getTile(rescale).getShape(), getTile(value).getShape());
        addConversion(
            rescale, same, value,
            [dims](const LinearLayout &layout) { return reduceLayout(layout, dims); }, nullptr,
            getTripCount(op->getBlock()));
      }
  }
}

void LayoutModel::addMatmulEdges(const MatmulModel &matmul, size_t variable) {
  MatmulOp op = matmul.op;
  auto connect =
      [&](Value value, const std::function<LinearLayout(const WarpGrid &)> &layoutOf,
          llvm::function_ref<double(const WarpGrid &, const LinearLayout &, const LinearLayout &)>
              costOf) {
        if (!groupOf.count(value))
          return;
        size_t other = groupOf[value];
        std::vector<LinearLayout> layouts;
        for (const WarpGrid &grid : matmul.grids)
          layouts.push_back(layoutOf(grid));
        addFactor(variable, other, [&](size_t grid, size_t choice) {
          return costOf(matmul.grids[grid], layouts[grid], groups[other].candidates[choice]);
        });
      };
  double times = getTripCount(op->getBlock());
  bool staysPartial = canStayPartial(op.getResult());
  connect(
      op.getResult(), [&](const WarpGrid &grid) { return matmul.getResult(grid, numWarps); },
      [&](const WarpGrid &grid, const LinearLayout &natural, const LinearLayout &wanted) {
        if (grid.k > 1 && !(staysPartial && natural == wanted))
          return times * getWarpSumCost(natural, wanted);
        return times * getConversionCost(wanted, natural);
      });
  for (int64_t index : {0, 1}) {
    Value operand = op->getOperand(index);
    double reads = getTripCount(operand.getParentBlock());
    connect(
        operand, [&](const WarpGrid &grid) { return matmul.getOperand(index, grid, numWarps); },
        [&](const WarpGrid &, const LinearLayout &needed, const LinearLayout &held) {
          return reads * getConversionCost(held, needed);
        });
  }
}
