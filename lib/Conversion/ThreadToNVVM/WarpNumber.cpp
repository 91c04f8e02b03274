//===- WarpNumber.cpp - the number of a warp, the same for all its threads ===//

#include "WarpNumber.h"

#include "Emitter.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mirage::thread;

/// An attribute of the op that makes the number.
static constexpr StringLiteral kWarpNumberAttr = "thread.warp_number";

void mirage::thread::createWarpNumber(gpu::GPUFuncOp kernel) {
  bool hasRoles = kernel.walk([](WarpsOp) { return WalkResult::interrupt(); }).wasInterrupted();
  if (!hasRoles)
    return;
  OpBuilder builder = OpBuilder::atBlockBegin(&kernel.getBody().front());
  Emitter e(builder, kernel.getLoc(), Role());
  Value number = e.shuffleIndex(e.warp(), e.i32(0));
  number.getDefiningOp()->setAttr(kWarpNumberAttr, builder.getUnitAttr());
}

Value mirage::thread::getWarpNumber(Operation *op) {
  auto kernel = op->getParentOfType<gpu::GPUFuncOp>();
  if (!kernel)
    return {};
  for (auto shuffle : kernel.getBody().front().getOps<NVVM::ShflOp>())
    if (shuffle->hasAttr(kWarpNumberAttr))
      return shuffle.getResult();
  return {};
}

namespace {
struct SubgroupIdLowering : OpRewritePattern<gpu::SubgroupIdOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(gpu::SubgroupIdOp op, PatternRewriter &rewriter) const override {
    Role role;
    role.warpNumber = getWarpNumber(op);
    Emitter e(rewriter, op.getLoc(), role);
    rewriter.replaceOpWithNewOp<arith::IndexCastUIOp>(op, op.getType(), e.warp());
    return success();
  }
};
} // namespace

void mirage::thread::populateWarpNumberPatterns(const TypeConverter &,
                                                RewritePatternSet &patterns) {
  patterns.add<SubgroupIdLowering>(patterns.getContext());
}
