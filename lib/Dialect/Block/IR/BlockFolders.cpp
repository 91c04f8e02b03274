//===- BlockFolders.cpp - tile ops that change nothing --------------------===//

#include "mirage/Dialect/Block/IR/Block.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mirage;
using namespace mirage::block;

static OpFoldResult foldIdentity(Operation *op) {
  if (op->getOperand(0).getType() == op->getResult(0).getType())
    return op->getOperand(0);
  return {};
}

// The complete number: constants with the same double but different `exact` numbers stay separate.
OpFoldResult ConstantOp::fold(FoldAdaptor) {
  if ((*this)->hasAttr("exact"))
    return (*this)->getAttrDictionary();
  return getValueAttr();
}
OpFoldResult CastOp::fold(FoldAdaptor) { return foldIdentity(*this); }
OpFoldResult ReshapeOp::fold(FoldAdaptor) { return foldIdentity(*this); }
OpFoldResult BroadcastOp::fold(FoldAdaptor) { return foldIdentity(*this); }
OpFoldResult ConvertLayoutOp::fold(FoldAdaptor) { return foldIdentity(*this); }

OpFoldResult ReduceOp::fold(FoldAdaptor) {
  return getDims().empty() ? foldIdentity(*this) : OpFoldResult();
}

OpFoldResult TransposeOp::fold(FoldAdaptor) {
  for (auto [i, dim] : llvm::enumerate(getPermutation()))
    if (static_cast<int64_t>(i) != dim)
      return {};
  return getInput();
}

namespace {

/// x * 1, x / 1, x + 0, x - 0 = x if the types agree.
struct FoldNeutralOperand : OpRewritePattern<BinaryOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(BinaryOp op, PatternRewriter &rewriter) const override {
    auto constant = op.getRhs().getDefiningOp<ConstantOp>();
    if (!constant || constant->hasAttr("exact") ||
        op.getLhs().getType() != op.getResult().getType())
      return failure();
    bool scales = op.getFn() == BinaryFn::Mul || op.getFn() == BinaryFn::Div;
    bool shifts = op.getFn() == BinaryFn::Add || op.getFn() == BinaryFn::Sub;
    if (!(scales && constant.getValue().isExactlyValue(1.0)) &&
        !(shifts && constant.getValue().isZero()))
      return failure();
    rewriter.replaceOp(op, op.getLhs());
    return success();
  }
};

} // namespace

void BinaryOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<FoldNeutralOperand>(context);
}
