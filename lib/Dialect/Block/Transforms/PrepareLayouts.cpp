//===- PrepareLayouts.cpp - before layouts are assigned -------------------===//

#include "PrepareLayouts.h"

#include "mirage/Dialect/Block/Analysis/LayoutModel.h"
#include "mirage/Dialect/Block/Analysis/WarpgroupProducts.h"
#include "mirage/Dialect/Common/ElementTypes.h"
#include "mirage/Target/Staging.h"

#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mirage;
using namespace mirage::block;

//===----------------------------------------------------------------------===//
// Values that go through shared memory
// ===----------------------------------------------------------------------===//

/// Whether the op only views the elements of a matrix. (Reshapes next to the store do not: they
/// read.)
static bool isView(Operation *op) {
  auto reshape = dyn_cast<ReshapeOp>(op);
  return isa<TransposeOp>(op) || (reshape && reshape.getType().getRank() == 2);
}

/// Whether a matmul reads the value, possibly transposed or reshaped.
static bool feedsMatmul(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    return isa<MatmulOp>(user) || (isView(user) && feedsMatmul(user->getResult(0)));
  });
}

static Type getMemoryType(LoadOp load) {
  return cast<RankedTensorType>(load.getSource().getType()).getElementType();
}

/// Whether the tile's elements have another type than those in memory.
static bool isConverted(LoadOp load) {
  return getMemoryType(load) != load.getType().getElementType();
}

/// Whether the elements in memory become wider numbers where a thread reads them.
static bool isWidened(LoadOp load) {
  Type element = getMemoryType(load);
  return isConverted(load) && (isEightBitFloat(element) || element.isInteger(8));
}

/// Whether the staged tile is a widened load, or a view of one.
static bool readsWidened(Value staged) {
  while (isView(staged.getDefiningOp()))
    staged = staged.getDefiningOp()->getOperand(0);
  auto load = staged.getDefiningOp<LoadOp>();
  return load && isWidened(load);
}

/// Whether copies of the load's tile can be asynchronous: rows of the tensor
/// start at multiples of 4 bytes.
static bool canCopyAsync(LoadOp load) {
  auto tensor = cast<RankedTensorType>(load.getSource().getType());
  if (isConverted(load) && !isWidened(load))
    return false;
  int64_t bytes = tensor.getElementType().getIntOrFloatBitWidth() / 8;
  return tensor.getRank() > 0 && kernel::getRowAlign(tensor) % asyncCopyUnit == 0 &&
         load.getType().getShape().back() * bytes % asyncCopyUnit == 0;
}

/// Bytes in flight of a multiprocessor at which device memory nearly reaches its bandwidth.
static constexpr int64_t enoughInFlight = 60 << 10;

/// Whether the rows by index of one step are enough for device memory, if all blocks of a
/// multiprocessor load them into registers at once: then a ring would only add barriers. On an
/// H200, 6 x 2048 rows of 2816 bytes in 128 blocks take 14.8 µs in this way and 9.7 with a ring; 6
/// x 2816 rows of 4 KB in 528 blocks take the same time with and without a ring, and without it
/// leave shared memory to the next kernel.
static bool areEnough(Block &step, kernel::LaunchOp launch, const Chip &chip) {
  int64_t bytes = 0;
  for (GatherOp gather : step.getOps<GatherOp>())
    bytes += gather.getType().getSizeInBytes();
  int64_t threads = 32 * launch.getSchedule()->getWarps();
  int64_t each = std::max<int64_t>(launch.getNumBlocks() / chip.getFewestSms(), 1);
  int64_t together = std::min(each, chip.threadsSm / threads);
  return bytes * together >= enoughInFlight;
}

ValueSet mirage::block::findStaged(kernel::LaunchOp launch, const Chip &chip) {
  ValueSet staged;
  auto addWithViews = [&](auto &self, Value value) -> void {
    staged.insert(value);
    for (Operation *user : value.getUsers())
      if (isView(user))
        self(self, user->getResult(0));
  };
  launch.getBody().walk([&](ConvertLayoutOp convert) {
    if (isKeptFactor(convert))
      staged.insert(convert.getResult());
  });
  bool usesGroups = launch.getSchedule()->usesWarpgroups();
  auto isWorthPrefetching = [&](Operation *load) {
    return isa<LoopOp>(load->getParentOp()) && launch.getSchedule()->getStages() > 1 &&
           getTile(load->getResult(0)).getSizeInBytes() >= minStagedBytes;
  };
  launch.getBody().walk([&](LoadOp load) {
    if (load.getType().getElementType().isInteger())
      return; // exact integers are only stored
    bool prefetched = isWorthPrefetching(load) && canCopyAsync(load) &&
                      (!usesGroups || (isBox(load) && !isConverted(load)));
    // Integers and floats of 8 bits become wider floats on their way to registers, except for
    // warpgroups, which multiply floats of 8 bits.
    bool isRead = isConverted(load) && !(usesGroups && isEightBitFloat(getMemoryType(load)));
    if ((feedsMatmul(load.getResult()) && !isRead) || prefetched)
      addWithViews(addWithViews, load.getResult());
  });
  launch.getBody().walk([&](GatherOp gather) {
    bool canStage = usesGroups ? canFillRing(gather) : canGatherAsync(gather);
    bool prefetched =
        isWorthPrefetching(gather) && !usesGroups && !areEnough(*gather->getBlock(), launch, chip);
    if ((feedsMatmul(gather.getResult()) || prefetched) && canStage)
      addWithViews(addWithViews, gather.getResult());
  });
  return staged;
}

//===----------------------------------------------------------------------===//
// Preparation
//===----------------------------------------------------------------------===//

namespace {
/// Makes explicit where tiles move between memory and registers, before layouts are known.
class Preparation {
public:
  Preparation(kernel::LaunchOp launch, int64_t numWarps, const Chip &chip)
      : launch(launch), numWarps(numWarps), chip(chip), rewriter(launch.getContext()) {}

  void run() {
    joinMatrices();
    dropPaddedUnits();
    keepFactors();
    readStaged();
    freeStores();
  }

private:
  /// A load that is read as a row and as a column (two loads of one tile before
  /// common subexpressions were eliminated) is one matrix, and its transpose.
  void joinMatrices() {
    SmallVector<LoadOp> loads;
    launch.getBody().walk([&](LoadOp load) { loads.push_back(load); });
    for (LoadOp load : loads) {
      SmallVector<ReshapeOp> views;
      bool isMatrix = false;
      for (Operation *user : load->getUsers()) {
        auto view = dyn_cast<ReshapeOp>(user);
        if (view && isMatrixOf(view, load.getResult()))
          views.push_back(view);
        else
          isMatrix = true;
      }
      if (views.size() + isMatrix < 2)
        continue;
      Value matrix = load.getResult();
      if (!isMatrix) {
        ReshapeOp first = views.pop_back_val();
        first->moveAfter(load);
        matrix = first.getResult();
      }
      for (ReshapeOp view : views) {
        rewriter.setInsertionPoint(view);
        if (view.getType() == matrix.getType())
          rewriter.replaceOp(view, matrix);
        else
          rewriter.replaceOpWithNewOp<TransposeOp>(view, view.getType(), matrix,
                                                   ArrayRef<int64_t>{1, 0});
      }
    }
  }

  /// A dimension of size 1 that a matmul pads is reduced (over its one element)
  /// before it is broadcast: the fragment has one column again.
  void dropPaddedUnits() {
    PaddingAnalysis padding(launch, numWarps);
    SmallVector<std::pair<OpOperand *, SmallVector<int64_t>>> found;
    launch.getBody().walk([&](Operation *op) {
      if (!isa<BinaryOp, BroadcastOp>(op))
        return;
      for (OpOperand &operand : op->getOpOperands()) {
        if (isScalar(operand.get()))
          continue;
        SmallVector<int64_t> dims = getBroadcastDims(getTile(operand.get()).getShape(),
                                                     getTile(op->getResult(0)).getShape());
        llvm::erase_if(dims,
                       [&](int64_t dim) { return padding.getExtent(operand.get(), dim) == 1; });
        if (!dims.empty())
          found.push_back({&operand, dims});
      }
    });
    for (auto &[operand, dims] : found) {
      rewriter.setInsertionPoint(operand->getOwner());
      Type type = TileType::get(getTile(operand->get()).getShape(), rewriter.getF32Type());
      operand->set(ReduceOp::create(rewriter, operand->get().getLoc(), type, ReduceFn::Sum,
                                    operand->get(), rewriter.getDenseI64ArrayAttr(dims)));
    }
  }

  /// A left factor of warpgroups that is computed once and read at all steps of a loop is
  /// written to shared memory before the first loop that reads it: its registers are free
  /// while the loop runs.
  void keepFactors() {
    if (!launch.getSchedule()->usesWarpgroups())
      return;
    DenseMap<Value, Value> kept;
    SmallVector<MatmulOp> matmuls;
    launch.getBody().walk([&](MatmulOp matmul) { matmuls.push_back(matmul); });
    for (MatmulOp matmul : matmuls) {
      Value factor = matmul.getLhs();
      if (!isComputedBefore(factor, matmul))
        continue;
      Value &tile = kept[factor];
      if (!tile) {
        rewriter.setInsertionPoint(matmul->getParentOp());
        tile = ConvertLayoutOp::create(rewriter, factor.getLoc(), factor.getType(), factor);
      }
      matmul.getLhsMutable().set(tile);
    }
  }

  /// Every use of a staged tile other than by a matmul of the same elements reads it into
  /// registers.
  void readStaged() {
    bool usesGroups = launch.getSchedule()->usesWarpgroups();
    for (Value value : findStaged(launch, chip))
      for (OpOperand &use : llvm::make_early_inc_range(value.getUses())) {
        bool isFactor = isa<MatmulOp>(use.getOwner()) && (usesGroups || !readsWidened(value));
        if (isFactor || isView(use.getOwner()))
          continue;
        rewriter.setInsertionPoint(use.getOwner());
        use.set(ConvertLayoutOp::create(rewriter, value.getLoc(), value.getType(), value));
      }
  }

  /// The result of a loop may be stored in a layout that differs from that of its accumulator. For
  /// a loop of warpgroups this also applies to values computed from the result, in the type of the
  /// stored result, which takes half the room of f32.
  void freeStores() {
    bool inGroups = launch.getSchedule()->usesWarpgroups();
    auto store = cast<StoreOp>(launch.getBody().front().getTerminator());
    for (OpOperand &tile : store->getOpOperands()) {
      OpOperand *use = &tile;
      while (auto reshape = use->get().getDefiningOp<ReshapeOp>())
        use = &reshape.getInputMutable();
      Operation *made = use->get().getDefiningOp();
      if (!isa<LoopOp>(made) && !(inGroups && isElementwise(made)))
        continue;
      if (inGroups)
        narrowStored(tile, use);
      rewriter.setInsertionPoint(use->getOwner());
      Value value = use->get();
      use->set(ConvertLayoutOp::create(rewriter, value.getLoc(), value.getType(), value));
    }
  }

  /// Converts a stored value, seen through views, to the result's type at the place where it is
  /// computed. `use` is the innermost view's operand, or the store's.
  void narrowStored(OpOperand &tile, OpOperand *&use) {
    auto store = cast<StoreOp>(tile.getOwner());
    Type element = cast<RankedTensorType>(launch.getResult(tile.getOperandNumber()).getType())
                       .getElementType();
    Value matrix = use->get();
    if (!isa<FloatType>(element) || isEightBitFloat(element) ||
        element.getIntOrFloatBitWidth() >= getTile(matrix).getElementType().getIntOrFloatBitWidth())
      return;
    auto withElement = [&](Value value) {
      return TileType::get(getTile(value).getShape(), element);
    };
    SmallVector<ReshapeOp> views;
    for (Value value = tile.get(); value != matrix; value = views.back().getInput())
      views.push_back(value.getDefiningOp<ReshapeOp>());
    rewriter.setInsertionPoint(store);
    Value value = CastOp::create(rewriter, matrix.getLoc(), withElement(matrix), matrix);
    use = &tile;
    for (ReshapeOp view : llvm::reverse(views)) {
      auto narrow =
          ReshapeOp::create(rewriter, view.getLoc(), withElement(view.getResult()), value);
      if (use == &tile)
        use = &narrow.getInputMutable();
      value = narrow.getResult();
    }
    tile.set(value);
  }

  kernel::LaunchOp launch;
  int64_t numWarps;
  const Chip &chip;
  IRRewriter rewriter;
};
} // namespace

void mirage::block::prepareLayouts(kernel::LaunchOp launch, int64_t numWarps, const Chip &chip) {
  Preparation(launch, numWarps, chip).run();
}
