//===- OverlapLaunches.cpp - kernels start before others end --------------===//

#include "mirage/Dialect/Kernel/IR/Kernel.h"
#include "mirage/Dialect/Thread/IR/Thread.h"
#include "mirage/Dialect/Thread/Transforms/Passes.h"
#include "mirage/Target/Resolve.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "llvm/ADT/SetVector.h"

namespace mirage::thread {
#define GEN_PASS_DEF_OVERLAPLAUNCHES
#include "mirage/Dialect/Thread/Transforms/Passes.h.inc"
} // namespace mirage::thread

using namespace mlir;
using namespace mirage;

namespace {
struct OverlapLaunches : thread::impl::OverlapLaunchesBase<OverlapLaunches> {
  using OverlapLaunchesBase::OverlapLaunchesBase;

  void runOnOperation() override {
    FailureOr<const Chip *> target = getChip(getOperation()->getLoc(), chip);
    if (failed(target))
      return signalPassFailure();
    if (!(*target)->has(Ability::DependentLaunch))
      return markAllAnalysesPreserved();
    getOperation()->walk([&](kernel::GraphOp graph) { overlap(graph); });
    // A kernel is called in several places at times: waiting where nothing is to be waited for,
    // and letting start what does not start early, do no harm.
    for (Operation *function : functions) {
      OpBuilder builder =
          OpBuilder::atBlockBegin(&cast<gpu::GPUFuncOp>(function).getBody().front());
      if (waiting.contains(function))
        thread::DependentWaitOp::create(builder, function->getLoc());
      if (!followed.contains(function))
        continue;
      if (Operation *loop = lastLoop(function))
        builder.setInsertionPointAfter(loop);
      thread::DependentLaunchOp::create(builder, function->getLoc());
    }
  }

private:
  /// The last of a kernel's loops that are in no other one.
  static Operation *lastLoop(Operation *function) {
    Operation *last = nullptr;
    function->walk<WalkOrder::PreOrder>([&](LoopLikeOpInterface loop) {
      last = loop;
      return WalkResult::skip();
    });
    return last;
  }

  void overlap(kernel::GraphOp graph) {
    kernel::InvokeOp before;
    for (Operation &op : graph.getBody().front()) {
      // No more than addresses: what is copied or joined elsewhere is a kernel of its own by now.
      if (isa<kernel::ReshapeOp, kernel::SliceOp, kernel::ConcatOp>(op))
        continue;
      auto invoke = dyn_cast<kernel::InvokeOp>(op);
      if (before && invoke) {
        invoke.setDependent(true);
        ++numDependent;
        waiting.insert(note(invoke));
        followed.insert(note(before));
      }
      before = invoke;
    }
  }

  Operation *note(kernel::InvokeOp invoke) {
    Operation *function = SymbolTable::lookupSymbolIn(getOperation(), invoke.getCallee());
    functions.insert(function);
    return function;
  }

  llvm::SetVector<Operation *> functions;
  DenseSet<Operation *> waiting, followed;
};
} // namespace
