//===- OverlapLaunches.cpp - kernels start before others end --------------===//

#include "mirage/Dialect/Kernel/IR/Kernel.h"
#include "mirage/Dialect/Thread/IR/Thread.h"
#include "mirage/Dialect/Thread/Transforms/Passes.h"
#include "mirage/Target/Resolve.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/MapVector.h"
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
    for (Operation *function : functions)
      if (waiting.contains(function))
        wait(cast<gpu::GPUFuncOp>(function));
    for (auto &[function, next] : followers) {
      OpBuilder builder(&getContext());
      Operation *loop = lastLoop(function);
      if (loop && !llvm::all_of(next, [&](Operation *f) { return loadsEarly.contains(f); }))
        builder.setInsertionPointAfter(loop);
      else if (Operation *waits = waiting.lookup(function))
        builder.setInsertionPointAfter(waits);
      else
        builder.setInsertionPointToStart(&cast<gpu::GPUFuncOp>(function).getBody().front());
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

  /// Waits before the first op that may touch what the kernels before write. What the kernel loads
  /// at its start of the graph's inputs goes before that: it is there already.
  void wait(gpu::GPUFuncOp function) {
    Operation *first = nullptr;
    SmallVector<Operation *> early;
    for (Operation &op : function.getBody().front()) {
      bool ready = loadsInput(&op, function);
      if (ready)
        early.push_back(&op);
      if (ready || isPure(&op) || isa<thread::CopyCommitOp>(op) || setsUpBarriers(op))
        continue;
      if (!first)
        first = &op;
      if (!isa<thread::CopyAsyncOp, thread::LoadGlobalOp>(op))
        break;
    }
    for (Operation *load : early)
      if (load->isBeforeInBlock(first) || hoist(load, first))
        loadsEarly.insert(function);
    OpBuilder builder(first);
    waiting[function] = thread::DependentWaitOp::create(builder, function.getLoc());
  }

  /// Whether an op is part of setting up barriers in shared memory, or asks for tensor maps.
  static bool setsUpBarriers(Operation &op) {
    return isa<thread::SharedAllocOp, thread::MbarrierAllocOp, thread::MbarrierInitOp,
               thread::PrefetchMapOp, thread::BarrierOp>(op);
  }

  static bool isPure(Operation *op) {
    return op->getNumRegions() == 0 && !op->hasTrait<OpTrait::IsTerminator>() && mlir::isPure(op);
  }

  /// Whether an op loads of an input of the graph.
  bool loadsInput(Operation *op, gpu::GPUFuncOp function) const {
    Value source;
    if (auto copy = dyn_cast<thread::CopyAsyncOp>(op))
      source = copy.getSource();
    else if (auto load = dyn_cast<thread::LoadGlobalOp>(op))
      source = load.getSource();
    else if (auto element = dyn_cast<memref::LoadOp>(op))
      source = element.getMemRef();
    auto argument = dyn_cast_if_present<BlockArgument>(source);
    if (!argument || argument.getOwner() != &function.getBody().front())
      return false;
    auto known = inputs.find(function);
    return known != inputs.end() && known->second.test(argument.getArgNumber());
  }

  /// Moves an op and what it needs of the block before another one, unless it needs what is not
  /// there by then.
  static bool hoist(Operation *op, Operation *before) {
    llvm::SetVector<Operation *> needed;
    needed.insert(op);
    for (size_t i = 0; i < needed.size(); ++i)
      for (Value operand : needed[i]->getOperands()) {
        Operation *made = operand.getDefiningOp();
        if (!made || made->getBlock() != op->getBlock() || made->isBeforeInBlock(before))
          continue;
        if (!isPure(made))
          return false;
        needed.insert(made);
      }
    SmallVector<Operation *> order = needed.takeVector();
    llvm::sort(order, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    for (Operation *moved : order)
      moved->moveBefore(before);
    return true;
  }

  void overlap(kernel::GraphOp graph) {
    kernel::InvokeOp before;
    for (Operation &op : graph.getBody().front()) {
      // No more than addresses: what is copied or joined elsewhere is a kernel of its own by now.
      if (isa<kernel::ReshapeOp, kernel::SliceOp, kernel::ConcatOp, kernel::IndexCopyOp>(op))
        continue;
      auto invoke = dyn_cast<kernel::InvokeOp>(op);
      if (before && invoke) {
        invoke.setDependent(true);
        ++numDependent;
        waiting.try_emplace(note(invoke), nullptr);
        followers[note(before)].push_back(note(invoke));
      }
      before = invoke;
    }
  }

  Operation *note(kernel::InvokeOp invoke) {
    Operation *function = SymbolTable::lookupSymbolIn(getOperation(), invoke.getCallee());
    functions.insert(function);
    // Results come after the operands.
    auto [known, isNew] =
        inputs.try_emplace(function, cast<gpu::GPUFuncOp>(function).getNumArguments(), false);
    for (auto [number, operand] : llvm::enumerate(invoke.getOperands())) {
      bool input = isInput(operand);
      known->second[number] = input && (isNew || known->second.test(number));
    }
    return function;
  }

  /// Whether a value is an input of its graph, or a view of one.
  static bool isInput(Value value) {
    while (isa_and_present<kernel::ReshapeOp, kernel::SliceOp>(value.getDefiningOp()))
      value = value.getDefiningOp()->getOperand(0);
    return isa<BlockArgument>(value);
  }

  llvm::SetVector<Operation *> functions;
  /// The kernels that wait, and where.
  DenseMap<Operation *, Operation *> waiting;
  /// The kernels that are let start, and those that come after them.
  llvm::MapVector<Operation *, SmallVector<Operation *>> followers;
  /// The kernels that load something before they wait.
  DenseSet<Operation *> loadsEarly;
  /// Which arguments of a kernel are inputs of the graph wherever it is called.
  DenseMap<Operation *, llvm::BitVector> inputs;
};
} // namespace
