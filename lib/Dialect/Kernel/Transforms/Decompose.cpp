//===- Decompose.cpp - replace composite ops by their definitions ---------===//

#include "mirage/Dialect/Kernel/IR/Kernel.h"
#include "mirage/Dialect/Kernel/Transforms/Passes.h"

namespace mirage::kernel {
#define GEN_PASS_DEF_MIRAGEDECOMPOSE
#include "mirage/Dialect/Kernel/Transforms/Passes.h.inc"
} // namespace mirage::kernel

using namespace mlir;
using namespace mirage::kernel;

namespace {

struct Decompose : mirage::kernel::impl::MirageDecomposeBase<Decompose> {
  using MirageDecomposeBase::MirageDecomposeBase;

  void runOnOperation() override {
    SmallVector<DecomposableOpInterface> found;
    getOperation()->walk([&](DecomposableOpInterface op) { found.push_back(op); });
    for (DecomposableOpInterface op : found) {
      OpBuilder builder(op);
      op->getResult(0).replaceAllUsesWith(op.decompose(builder, stable));
      op->erase();
      ++numDecomposed;
    }
  }
};

} // namespace
