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
      // Inner loops first: what leaves one may leave the next as well.
      launch.getBody().walk<WalkOrder::PostOrder>([&](LoopOp loop) { hoist(loop); });
      launch.getBody().walk([&](MatmulOp matmul) { legalize(matmul, rewriter); });
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

  /// The maximum of scaled values is the scaled maximum, to the bit: rounding keeps
  /// the order. One product a row instead of one an element.
  static void scaleAfter(ReduceOp reduce, IRRewriter &rewriter) {
    auto scaled = reduce.getInput().getDefiningOp<BinaryOp>();
    if (reduce.getFn() != ReduceFn::Max || !scaled || scaled.getFn() != BinaryFn::Mul ||
        scaled->getBlock() != reduce->getBlock())
      return;
    auto factor = scaled.getRhs().getDefiningOp<ConstantOp>();
    auto values = cast<TileType>(scaled.getLhs().getType());
    if (!factor || !(factor.getValue().convertToDouble() > 0) ||
        !std::isfinite(factor.getValue().convertToDouble()) || !values.getElementType().isF32() ||
        values.getShape() != scaled.getType().getShape())
      return;
    rewriter.setInsertionPoint(reduce);
    Value largest = ReduceOp::create(rewriter, reduce.getLoc(), reduce.getType(), ReduceFn::Max,
                                     scaled.getLhs(), reduce.getDimsAttr());
    rewriter.replaceOpWithNewOp<BinaryOp>(reduce, reduce.getType(), BinaryFn::Mul, largest,
                                          factor.getResult());
    // The scaled values take registers from where they are needed on.
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
