//===- WriteLayouts.cpp - a choice of layouts in the types of a launch ----===//

#include "WriteLayouts.h"

#include "mirage/Dialect/Block/Analysis/Boxes.h"
#include "mirage/Dialect/Block/Analysis/SkewedTiles.h"

#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mirage;
using namespace mirage::block;
using thread::FragmentType;
using thread::LinearLayout;
using thread::SharedType;

namespace {
/// Writes a solution into the types of one launch.
class LayoutWriter {
public:
  LayoutWriter(kernel::LaunchOp launch, const LayoutModel &model, const PaddingAnalysis &padding,
               ArrayRef<size_t> choices, const ValueSet &staged, int64_t numWarps)
      : launch(launch), model(model), padding(padding), choices(choices), staged(staged),
        numWarps(numWarps), rewriter(launch.getContext()) {}

  int64_t run() {
    SmallVector<Operation *> ops;
    launch.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) { ops.push_back(op); });
    // Inner loops first, so that partial values are known for outer ones.
    for (Operation *op : ops)
      for (Value value : op->getResults())
        if (model.isGrouped(value))
          layouts[value] = model.getLayout(value, choices);
    launch.getBody().walk<WalkOrder::PostOrder>([&](Operation *op) { findPartial(op); });
    for (Operation *op : ops)
      visit(op);
    // Changes that were possible and are not wanted.
    launch.getBody().walk([&](ConvertLayoutOp convert) {
      if (convert.getInput().getType() == convert.getType())
        rewriter.replaceOp(convert, convert.getInput());
    });
    return numConversions;
  }

private:
  FragmentType getTarget(Value value, const LinearLayout &layout, bool isPartial = false) {
    return FragmentType::get(getTile(value).getElementType(), layout, isPartial);
  }

  /// The layout in which the op computes the value, before any conversion.
  LinearLayout getNatural(Value value) {
    Operation *op = value.getDefiningOp();
    if (auto matmul = dyn_cast<MatmulOp>(op))
      return model.getMatmul(matmul).getResult(model.getGrid(matmul, choices), numWarps);
    if (auto reduce = dyn_cast<ReduceOp>(op))
      return reduceLayout(layouts.lookup(reduce.getInput()), reduce.getDims());
    if (auto transpose = dyn_cast<TransposeOp>(op))
      return layouts.lookup(transpose.getInput()).transpose();
    return layouts.lookup(value);
  }

  /// Whether the op leaves summands in the warps when it is allowed to.
  bool canBePartial(Value value) {
    Operation *op = value.getDefiningOp();
    if (auto matmul = dyn_cast<MatmulOp>(op))
      return model.getGrid(matmul, choices).k > 1;
    auto reduce = dyn_cast<ReduceOp>(op);
    return reduce && reduce.getFn() == ReduceFn::Sum && reduce.getDims().size() == 1 &&
           hasNoCopies(layouts.lookup(reduce.getInput())) &&
           layouts.lookup(reduce.getInput()).warpsSpan(reduce.getDims().front());
  }

  /// Zero warp vectors of a partial fragment all count as summands.
  static bool hasNoCopies(const LinearLayout &layout) {
    return llvm::none_of(layout.getWarp(), [](thread::Coord vector) { return vector.isZero(); });
  }

  void findPartial(Operation *op) {
    if (isa<MatmulOp, ReduceOp>(op)) {
      Value value = op->getResult(0);
      if (canBePartial(value) && canStayPartial(value) &&
          getNatural(value) == layouts.lookup(value))
        partial.insert(value);
    }
    auto accumulate = dyn_cast<AccumulateOp>(op);
    if (!accumulate)
      return;
    for (auto [value, result] :
         llvm::zip_equal(accumulate.getValues(), op->getParentOp()->getResults()))
      if (partial.contains(value))
        partial.insert(result);
  }

  void setHolder(Value value, Type holder) { value.setType(withHolder(getTile(value), holder)); }

  /// `value` in the layout `target`; the op that changes it comes right after the value's
  /// definition.
  Value convert(Value value, FragmentType target) {
    if (getFragment(value) == target)
      return value;
    Value &converted = conversions[{value, target}];
    if (!converted) {
      rewriter.setInsertionPointAfterValue(value);
      converted = ConvertLayoutOp::create(rewriter, value.getLoc(),
                                          withHolder(getTile(value), target), value);
      ++numConversions;
    }
    return converted;
  }

  void convertOperand(OpOperand &operand, const LinearLayout &layout, bool isPartial = false) {
    operand.set(convert(operand.get(), getTarget(operand.get(), layout, isPartial)));
  }

  /// Gives the result its natural holder and, if the group's differs, converts it for all users.
  void setResult(Value value, const LinearLayout &natural, bool isPartial) {
    setHolder(value, getTarget(value, natural, isPartial));
    FragmentType wanted = getTarget(value, layouts.lookup(value), partial.contains(value));
    if (getFragment(value) == wanted)
      return;
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : value.getUses())
      uses.push_back(&use);
    Value converted = convert(value, wanted);
    for (OpOperand *use : uses)
      use->set(converted);
  }

  void visit(Operation *op) {
    if (isElementwise(op))
      return visitElementwise(op);
    TypeSwitch<Operation *>(op)
        .Case<ConstantOp, ScalarOp, StoreOp>([](Operation *) {})
        .Case<LoadOp>([&](LoadOp load) { visitLoad(load); })
        .Case<GatherOp>([&](GatherOp gather) {
          if (staged.contains(gather.getResult()))
            return setShared(gather.getResult(), gather.getType().getElementType());
          Value matrix = getMatrix(gather.getResult());
          setHolder(gather.getResult(),
                    FragmentType::get(getTile(matrix).getElementType(), layouts.lookup(matrix)));
        })
        .Case<IntegersOp>([&](IntegersOp integers) {
          Value matrix = getMatrix(integers.getResult());
          setHolder(integers.getResult(),
                    FragmentType::get(getTile(matrix).getElementType(), layouts.lookup(matrix)));
        })
        .Case<ReshapeOp>([&](ReshapeOp reshape) {
          setHolder(reshape.getResult(), getHolder(getTile(reshape.getInput())));
        })
        .Case<LoopOp>([&](LoopOp loop) { visitLoop(loop); })
        .Case<ConvertLayoutOp>([&](ConvertLayoutOp read) {
          if (staged.contains(read.getResult()))
            return setShared(read.getResult(), getTile(read.getResult()).getElementType());
          setHolder(read.getResult(),
                    getTarget(read.getResult(), layouts.lookup(read.getResult())));
        })
        .Case<ReduceOp>([&](ReduceOp reduce) {
          Value result = reduce.getResult();
          setResult(result, getNatural(result), partial.contains(result));
        })
        .Case<CumulateOp, ArgsortOp>([&](auto along) {
          const LinearLayout &layout = layouts.find(along.getResult())->second;
          convertOperand(along.getInputMutable(), layout);
          setHolder(along.getResult(), getTarget(along.getResult(), layout));
        })
        .Case<TransposeOp>([&](TransposeOp transpose) {
          Value result = transpose.getResult();
          if (staged.contains(result))
            setHolder(result, getHolder(getTile(transpose.getInput())));
          else
            setResult(result, getNatural(result), false);
        })
        .Case<MatmulOp>([&](MatmulOp matmul) { visitMatmul(matmul); })
        .Case<AccumulateOp>([&](AccumulateOp accumulate) {
          for (auto [operand, result] :
               llvm::zip_equal(accumulate.getValuesMutable(), op->getParentOp()->getResults()))
            convertOperand(operand, layouts.lookup(result), partial.contains(result));
        })
        .Default([](Operation *other) {
          llvm::report_fatal_error("mirage-assign-layouts: no rule for " +
                                   other->getName().getStringRef());
        });
  }

  /// Holds a tile in shared memory, with elements of a type; a load as the matrix that its users
  /// see.
  void setShared(Value value, Type elementType) {
    Value matrix = getMatrix(value);
    setHolder(value, getSharedType(padding.getExtent(matrix, 0), padding.getExtent(matrix, 1),
                                   elementType));
  }

  void visitLoad(LoadOp load) {
    Value matrix = getMatrix(load.getResult());
    if (staged.contains(load.getResult())) {
      if (SharedType skewed =
              getSkewedType(load, padding.getExtent(matrix, 0), padding.getExtent(matrix, 1)))
        return setHolder(load.getResult(), skewed);
      return setShared(load.getResult(),
                       cast<RankedTensorType>(load.getSource().getType()).getElementType());
    }
    setHolder(load.getResult(),
              FragmentType::get(getTile(matrix).getElementType(), layouts.lookup(matrix)));
  }

  void visitLoop(LoopOp loop) {
    for (Value result : loop.getResults()) {
      bool isPartial = partial.contains(result);
      setHolder(result, getTarget(result, layouts.lookup(result), isPartial));
      if (!isPartial || canStayPartial(result))
        continue;
      // These request a layout, and get the sum in it.
      SmallVector<OpOperand *> uses;
      for (OpOperand &use : result.getUses())
        if (!isElementwise(use.getOwner()) &&
            !isa<MatmulOp, AccumulateOp, ConvertLayoutOp>(use.getOwner()))
          uses.push_back(&use);
      if (uses.empty())
        continue;
      Value sum = convert(result, getTarget(result, layouts.lookup(result)));
      for (OpOperand *use : uses)
        use->set(sum);
    }
  }

  void visitElementwise(Operation *op) {
    Value result = op->getResult(0);
    const LinearLayout &layout = layouts.find(result)->second;
    for (OpOperand &operand : op->getOpOperands()) {
      if (isScalar(operand.get()))
        continue;
      convertOperand(operand,
                     reduceLayout(layout, getBroadcastDims(getTile(operand.get()).getShape(),
                                                           getTile(result).getShape())));
    }
    setHolder(result, getTarget(result, layout));
  }

  void visitMatmul(MatmulOp matmul) {
    const MatmulModel &shape = model.getMatmul(matmul);
    thread::WarpGrid grid = model.getGrid(matmul, choices);
    for (OpOperand &operand : matmul->getOpOperands())
      if (!getShared(operand.get()))
        convertOperand(operand, shape.getOperand(operand.getOperandNumber(), grid, numWarps));
    int64_t rows = shape.warpgroup ? 4 * grid.m : grid.m;
    matmul.setWarps(shape.swapped ? ArrayRef<int64_t>{grid.n, rows, grid.k}
                                  : ArrayRef<int64_t>{rows, grid.n, grid.k});
    matmul.setSwapped(shape.swapped);
    matmul.setWarpgroup(shape.warpgroup);
    setResult(matmul.getResult(), shape.getResult(grid, numWarps), grid.k > 1);
  }

  kernel::LaunchOp launch;
  const LayoutModel &model;
  const PaddingAnalysis &padding;
  ArrayRef<size_t> choices;
  const ValueSet &staged;
  int64_t numWarps;
  IRRewriter rewriter;
  DenseMap<Value, LinearLayout> layouts;
  DenseSet<Value> partial;
  DenseMap<std::pair<Value, Type>, Value> conversions;
  int64_t numConversions = 0;
};

} // namespace

int64_t mirage::block::writeLayouts(kernel::LaunchOp launch, const LayoutModel &model,
                                    const PaddingAnalysis &padding, ArrayRef<size_t> choices,
                                    const ValueSet &staged, int64_t numWarps) {
  return LayoutWriter(launch, model, padding, choices, staged, numWarps).run();
}
