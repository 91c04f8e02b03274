//===- LegalizeTiles.cpp - what code is generated for ---------------------===//

#include "mirage/Dialect/Block/IR/Block.h"
#include "mirage/Dialect/Block/Transforms/Passes.h"
#include "mirage/Dialect/Kernel/IR/Kernel.h"

#include "mlir/IR/PatternMatch.h"

#include <cmath>

namespace mirage::block {
#define GEN_PASS_DEF_LEGALIZETILES
#include "mirage/Dialect/Block/Transforms/Passes.h.inc"
} // namespace mirage::block

using namespace mlir;
using namespace mirage;
using namespace mirage::block;

namespace {
struct LegalizeTiles : block::impl::LegalizeTilesBase<LegalizeTiles> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    getOperation()->walk([&](kernel::LaunchOp launch) {
      dropUnused(launch, rewriter);
      // Inner loops first: ops that leave one loop may leave the next as well.
      launch.getBody().walk<WalkOrder::PostOrder>([&](LoopOp loop) { hoist(loop); });
      launch.getBody().walk([&](MatmulOp matmul) { legalize(matmul, rewriter); });
      launch.getBody().walk([&](BinaryOp sum) { scaleAfter(sum, rewriter); });
      launch.getBody().walk([&](MaskOp mask) { scaleAfter(mask, rewriter); });
      launch.getBody().walk([&](ReduceOp reduce) { scaleAfter(reduce, rewriter); });
    });
  }

private:
  static void dropUnused(kernel::LaunchOp launch, IRRewriter &rewriter) {
    SmallVector<Operation *> ops;
    launch.getBody().walk<WalkOrder::PostOrder>([&](Operation *op) { ops.push_back(op); });
    DenseSet<Operation *> erased;
    for (Operation *op : llvm::reverse(ops)) {
      if (erased.contains(op) || op->hasTrait<OpTrait::IsTerminator>() || !op->use_empty() ||
          !isMemoryEffectFree(op))
        continue;
      op->walk([&](Operation *inner) { erased.insert(inner); });
      rewriter.eraseOp(op);
    }
  }

  static bool mentions(Attribute axes, StringRef axis) {
    return llvm::any_of(cast<ArrayAttr>(axes),
                        [&](Attribute name) { return cast<StringAttr>(name).getValue() == axis; });
  }

  static bool dependsOnAxis(Operation *op, StringRef axis) {
    if (auto load = dyn_cast<LoadOp>(op))
      return llvm::any_of(load.getMap(), [&](Attribute axes) { return mentions(axes, axis); });
    if (auto gather = dyn_cast<GatherOp>(op))
      return llvm::any_of(gather.getMap(), [&](Attribute axes) { return mentions(axes, axis); });
    if (auto integers = dyn_cast<IntegersOp>(op))
      return llvm::any_of(integers.getMap(), [&](Attribute axes) { return mentions(axes, axis); });
    if (auto iota = dyn_cast<IotaOp>(op))
      return mentions(iota.getAxes(), axis);
    if (auto mask = dyn_cast<MaskOp>(op))
      return mentions(mask.getAxes(), axis);
    return isa<RunningMaxOp>(op) || op->getNumRegions() > 0;
  }

  void hoist(LoopOp loop) {
    for (Operation &op : llvm::make_early_inc_range(loop.getBody().front().without_terminator())) {
      bool usesBody = llvm::any_of(op.getOperands(), [&](Value operand) {
        return loop.getBody().isAncestor(operand.getParentRegion());
      });
      if (usesBody || dependsOnAxis(&op, loop.getAxis()))
        continue;
      op.moveBefore(loop);
      ++numHoisted;
    }
  }

  /// The positive constant by which f32 values are scaled, or null.
  static ConstantOp getScale(BinaryOp scaled) {
    if (!scaled || scaled.getFn() != BinaryFn::Mul)
      return {};
    auto factor = scaled.getRhs().getDefiningOp<ConstantOp>();
    auto values = cast<TileType>(scaled.getLhs().getType());
    bool isScale = factor && factor.getValue().convertToDouble() > 0 &&
                   std::isfinite(factor.getValue().convertToDouble()) &&
                   values.getElementType().isF32() &&
                   values.getShape() == scaled.getType().getShape();
    return isScale ? factor : ConstantOp();
  }

  /// Whether all elements are 0 or minus infinity.
  static bool isBias(Value value) {
    Operation *op = value.getDefiningOp();
    while (op && isa<BroadcastOp, ReshapeOp, TransposeOp, CastOp>(op))
      op = op->getOperand(0).getDefiningOp();
    auto unary = dyn_cast_or_null<UnaryOp>(op);
    return unary && unary.getFn() == UnaryFn::Bias;
  }

  /// Adding a bias of 0 or minus infinity to scaled values gives the scaled sums, bit for bit.
  /// Later rewrites find the scale, and masks apply before the values are scaled.
  static void scaleAfter(BinaryOp sum, IRRewriter &rewriter) {
    if (sum.getFn() != BinaryFn::Add)
      return;
    Value left = sum.getLhs(), right = sum.getRhs();
    if (isBias(left))
      std::swap(left, right);
    auto scaled = left.getDefiningOp<BinaryOp>();
    ConstantOp factor = getScale(scaled);
    if (!isBias(right) || !factor || !scaled->hasOneUse() ||
        scaled->getBlock() != sum->getBlock() ||
        scaled.getType().getShape() != sum.getType().getShape())
      return;
    rewriter.setInsertionPoint(sum);
    Value masked = BinaryOp::create(rewriter, sum.getLoc(), sum.getType(), BinaryFn::Add,
                                    scaled.getLhs(), right);
    rewriter.replaceOpWithNewOp<BinaryOp>(sum, sum.getType(), BinaryFn::Mul, masked,
                                          factor.getResult());
    rewriter.eraseOp(scaled);
  }

  /// Overwriting scaled values by a number that the scale does not change gives the scaled
  /// overwritten values.
  static void scaleAfter(MaskOp mask, IRRewriter &rewriter) {
    auto scaled = mask.getInput().getDefiningOp<BinaryOp>();
    ConstantOp factor = getScale(scaled);
    double fill = mask.getFill().convertToDouble();
    if (!factor || !scaled->hasOneUse() || scaled->getBlock() != mask->getBlock() ||
        (fill != 0 && !std::isinf(fill)))
      return;
    rewriter.setInsertionPoint(mask);
    Value masked =
        MaskOp::create(rewriter, mask.getLoc(), mask.getType(), scaled.getLhs(), mask.getDimAttr(),
                       mask.getAxesAttr(), mask.getExtentAttr(), mask.getFillAttr());
    rewriter.replaceOpWithNewOp<BinaryOp>(mask, mask.getType(), BinaryFn::Mul, masked,
                                          factor.getResult());
    rewriter.eraseOp(scaled);
  }

  /// The maximum of scaled values is the scaled maximum, bit for bit: rounding keeps the order.
  /// This takes one product per row instead of one per element.
  static void scaleAfter(ReduceOp reduce, IRRewriter &rewriter) {
    auto scaled = reduce.getInput().getDefiningOp<BinaryOp>();
    ConstantOp factor = getScale(scaled);
    if (reduce.getFn() != ReduceFn::Max || !factor || scaled->getBlock() != reduce->getBlock())
      return;
    rewriter.setInsertionPoint(reduce);
    Value largest = ReduceOp::create(rewriter, reduce.getLoc(), reduce.getType(), ReduceFn::Max,
                                     scaled.getLhs(), reduce.getDimsAttr());
    rewriter.replaceOpWithNewOp<BinaryOp>(reduce, reduce.getType(), BinaryFn::Mul, largest,
                                          factor.getResult());
    // The scaled values take registers only from the place where they are needed.
    Operation *first = nullptr;
    for (Operation *user : scaled->getUsers()) {
      Operation *at = scaled->getBlock()->findAncestorOpInBlock(*user);
      first = first && first->isBeforeInBlock(at) ? first : at;
    }
    if (first)
      scaled->moveBefore(first);
  }

  static void legalize(MatmulOp matmul, IRRewriter &rewriter) {
    auto lhs = cast<TileType>(matmul.getLhs().getType()),
         rhs = cast<TileType>(matmul.getRhs().getType());
    rewriter.setInsertionPoint(matmul);
    if (lhs.getShape().back() == 1) {
      rewriter.replaceOpWithNewOp<BinaryOp>(matmul, matmul.getType(), BinaryFn::Mul,
                                            matmul.getLhs(), matmul.getRhs());
      return;
    }
    if (lhs.getElementType() == rhs.getElementType())
      return;
    for (OpOperand &operand : matmul->getOpOperands()) {
      auto type = cast<TileType>(operand.get().getType());
      if (!type.getElementType().isF32() && !type.getElementType().isF64())
        operand.set(CastOp::create(rewriter, matmul.getLoc(),
                                   type.withElementType(rewriter.getF32Type()), operand.get()));
    }
  }
};
} // namespace
