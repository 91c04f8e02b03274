//===- SplitOverClusters.cpp - several blocks for one position of the grid ===//

#include "mirage/Dialect/Block/Analysis/ClusterSplit.h"
#include "mirage/Dialect/Block/Transforms/Passes.h"

#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

namespace mirage::block {
#define GEN_PASS_DEF_SPLITOVERCLUSTERS
#include "mirage/Dialect/Block/Transforms/Passes.h.inc"
} // namespace mirage::block

using namespace mlir;
using namespace mirage;
using namespace mirage::block;

namespace {
/// Rewrites one launch whose work can be shared.
class Splitter {
public:
  Splitter(kernel::LaunchOp launch, int64_t blocks, const ClusterSplit &split)
      : launch(launch), blocks(blocks), split(split), builder(launch.getContext()),
        axis(builder.getStringAttr(getFreeName(launch))) {}

  /// Returns the number of totals.
  int64_t run() {
    addAxis();
    // Everything on which the choice depends is read before types change.
    SmallVector<std::pair<Value, unsigned>> cutTiles;
    SmallVector<ReduceOp> partial;
    SmallVector<LoopOp> shared;
    for (Operation &op : launch.getBody().front()) {
      for (Value value : op.getResults())
        if (std::optional<unsigned> dim = split.getCutDim(value))
          cutTiles.push_back({value, *dim});
      if (auto reduce = dyn_cast<ReduceOp>(op); reduce && split.isPartial(reduce))
        partial.push_back(reduce);
      if (auto loop = dyn_cast<LoopOp>(op); loop && split.isShared(loop))
        shared.push_back(loop);
    }
    cutStores(cast<StoreOp>(launch.getBody().front().getTerminator()));
    for (auto [value, dim] : cutTiles)
      cut(value, dim);
    for (ReduceOp reduce : partial) {
      builder.setInsertionPointAfter(reduce);
      Value total = addTotal(reduce.getFn(), reduce.getResult(), {});
      reduce.getResult().replaceAllUsesExcept(total, total.getDefiningOp());
    }
    for (LoopOp loop : shared)
      share(loop);
    joinTotals();
    return numTotals;
  }

private:
  /// A name that no axis of the launch has.
  static std::string getFreeName(kernel::LaunchOp launch) {
    llvm::StringSet<> taken;
    for (Attribute name : launch.getGridNames())
      taken.insert(cast<StringAttr>(name).getValue());
    launch.getBody().walk([&](LoopOp loop) { taken.insert(loop.getAxis()); });
    std::string name = "part";
    for (int64_t number = 1; taken.contains(name); ++number)
      name = "part" + llvm::utostr(number);
    return name;
  }

  void addAxis() {
    SmallVector<Attribute> names(launch.getGridNames().getValue());
    SmallVector<int64_t> extents(launch.getGridExtents());
    names.push_back(axis);
    extents.push_back(blocks);
    launch.setGridNamesAttr(builder.getArrayAttr(names));
    launch.setGridExtents(extents);
  }

  ArrayAttr withAxis(Attribute axes) {
    SmallVector<Attribute> names(cast<ArrayAttr>(axes).getValue());
    names.push_back(axis);
    return builder.getArrayAttr(names);
  }

  ArrayAttr withAxis(ArrayAttr map, unsigned dim) {
    SmallVector<Attribute> dims(map.getValue());
    dims[dim] = withAxis(dims[dim]);
    return builder.getArrayAttr(dims);
  }

  void cutStores(StoreOp store) {
    SmallVector<Attribute> maps(store.getMaps().getValue());
    for (auto [map, tile] : llvm::zip_equal(maps, store.getTiles()))
      map = withAxis(cast<ArrayAttr>(map), *split.getCutDim(tile));
    store.setMapsAttr(builder.getArrayAttr(maps));
  }

  /// The blocks' parts of a dimension follow each other within the part of the position.
  void cut(Value value, unsigned dim) {
    auto type = cast<TileType>(value.getType());
    SmallVector<int64_t> shape(type.getShape());
    shape[dim] /= blocks;
    value.setType(TileType::get(shape, type.getElementType()));
    Operation *op = value.getDefiningOp();
    if (auto load = dyn_cast<LoadOp>(op))
      load.setMapAttr(withAxis(load.getMap(), dim));
    else if (auto mask = dyn_cast<MaskOp>(op); mask && mask.getDim() == dim)
      mask.setAxesAttr(withAxis(mask.getAxes()));
    else if (auto iota = dyn_cast<IotaOp>(op); iota && iota.getDim() == dim)
      iota.setAxesAttr(withAxis(iota.getAxes()));
  }

  Value addTotal(ReduceFn fn, Value value, Value rescale) {
    ++numTotals;
    return ClusterReduceOp::create(builder, value.getLoc(), value.getType(), fn, value, rescale,
                                   builder.getArrayAttr({axis}));
  }

  /// The axes of a load or mask in a loop of which each block takes a part of the steps.
  ArrayAttr replaceAxis(Attribute axes, StringRef loopAxis, bool isInlined) {
    SmallVector<Attribute> names;
    for (Attribute name : cast<ArrayAttr>(axes)) {
      bool isLoop = cast<StringAttr>(name).getValue() == loopAxis;
      if (isLoop)
        names.push_back(axis);
      if (!isLoop || !isInlined)
        names.push_back(name);
    }
    return builder.getArrayAttr(names);
  }

  void share(LoopOp loop) {
    int64_t steps = loop.getExtent() / blocks;
    for (Operation &op : loop.getBody().front()) {
      if (auto load = dyn_cast<LoadOp>(op)) {
        SmallVector<Attribute> dims;
        for (Attribute axes : load.getMap())
          dims.push_back(replaceAxis(axes, loop.getAxis(), steps == 1));
        load.setMapAttr(builder.getArrayAttr(dims));
      } else if (auto mask = dyn_cast<MaskOp>(op)) {
        mask.setAxesAttr(replaceAxis(mask.getAxes(), loop.getAxis(), steps == 1));
      }
    }
    loop.setExtent(steps);
    addTotals(loop);
    if (steps == 1)
      inlineBody(loop);
  }

  void addTotals(LoopOp loop) {
    builder.setInsertionPointAfter(loop);
    auto accumulate = cast<AccumulateOp>(loop.getBody().front().getTerminator());
    DenseMap<Value, Value> maxima;
    for (auto [number, value] : llvm::enumerate(accumulate.getValues()))
      if (accumulate.getFn(number) == AccumulateFn::Last)
        maxima[value] = loop.getResult(number);
    SmallVector<Value> totals;
    SmallPtrSet<Operation *, 4> made;
    for (auto [number, result] : llvm::enumerate(loop.getResults())) {
      bool isSum = accumulate.getFn(number) == AccumulateFn::Sum;
      totals.push_back(addTotal(isSum ? ReduceFn::Sum : ReduceFn::Max, result,
                                maxima.lookup(accumulate.getRescale(number))));
      made.insert(totals.back().getDefiningOp());
    }
    for (auto [result, total] : llvm::zip_equal(loop.getResults(), totals))
      result.replaceAllUsesExcept(total, made);
  }

  /// In one step, an accumulator is the step's value, and the maximum so far is the step's.
  void inlineBody(LoopOp loop) {
    Block &body = loop.getBody().front();
    auto accumulate = cast<AccumulateOp>(body.getTerminator());
    for (auto running : llvm::make_early_inc_range(body.getOps<RunningMaxOp>())) {
      running.getResult().replaceAllUsesWith(running.getInput());
      running.erase();
    }
    for (Operation &op : llvm::make_early_inc_range(body.without_terminator()))
      op.moveBefore(loop);
    builder.setInsertionPoint(loop);
    for (auto [value, result] : llvm::zip_equal(accumulate.getValues(), loop.getResults())) {
      Value last = value;
      if (last.getType() != result.getType())
        last = CastOp::create(builder, loop.getLoc(), result.getType(), last);
      result.replaceAllUsesWith(last);
    }
    loop.erase();
  }

  /// Adds the ops after `first` that `value` is computed from, which are moved before it; whether
  /// no total is among them.
  static bool collect(Value value, Operation *first, SetVector<Operation *> &before) {
    Operation *op = value.getDefiningOp();
    if (!op || before.contains(op))
      return true;
    op = op->getBlock() == first->getBlock() ? op : nullptr;
    if (!op || op->isBeforeInBlock(first))
      return true;
    if (isa<ClusterReduceOp>(op))
      return false;
    bool isFree = true;
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        isFree &= collect(operand, first, before);
    });
    before.insert(op);
    return isFree;
  }

  /// Totals that need no other ones become neighbours: blocks exchange them together.
  void joinTotals() {
    SmallVector<ClusterReduceOp> left(launch.getBody().getOps<ClusterReduceOp>());
    while (!left.empty()) {
      ClusterReduceOp last = left.front();
      SmallVector<ClusterReduceOp> later;
      for (ClusterReduceOp total : llvm::drop_begin(left)) {
        SetVector<Operation *> before;
        bool isFree = llvm::all_of(total->getOperands(), [&](Value operand) {
          return collect(operand, left.front(), before);
        });
        if (!isFree) {
          later.push_back(total);
          continue;
        }
        for (Operation *op : before)
          op->moveBefore(left.front());
        total->moveAfter(last);
        last = total;
      }
      left = std::move(later);
    }
  }

  kernel::LaunchOp launch;
  int64_t blocks;
  const ClusterSplit &split;
  OpBuilder builder;
  StringAttr axis;
  int64_t numTotals = 0;
};

struct SplitOverClusters : block::impl::SplitOverClustersBase<SplitOverClusters> {
  void runOnOperation() override {
    getOperation()->walk([&](kernel::LaunchOp launch) {
      std::optional<kernel::ScheduleAttr> schedule = launch.getSchedule();
      if (!schedule || schedule->usesWarpgroups() || schedule->getCluster() == 1 ||
          !launch.getBody().getOps<ClusterReduceOp>().empty())
        return;
      ClusterSplit split(launch, schedule->getCluster());
      if (std::optional<std::string> why = split.whyNot()) {
        launch.emitRemark("no cluster of blocks: expected ") << *why;
        launch.setScheduleAttr(schedule->withoutCluster());
        return;
      }
      ++numSplit;
      numTotals += Splitter(launch, schedule->getCluster(), split).run();
    });
  }
};
} // namespace
