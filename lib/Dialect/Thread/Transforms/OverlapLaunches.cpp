//===- OverlapLaunches.cpp - kernels start before others end --------------===//

#include "KernelsBeside.h"

#include "mirage/Dialect/Kernel/IR/Kernel.h"
#include "mirage/Dialect/Thread/IR/Thread.h"
#include "mirage/Dialect/Thread/Transforms/Passes.h"
#include "mirage/Target/Resolve.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/BitVector.h"
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
    getOperation()->walk([&](kernel::InvokeOp invoke) { ++calls[invoke.getCallee()]; });
    getOperation()->walk([&](kernel::GraphOp graph) { overlap(graph); });
    // A kernel is called in several places at times: waiting where nothing is to be waited for,
    // and letting start what does not start early, do no harm.
    for (Operation *function : functions)
      if (late.contains(function))
        waitLast(cast<gpu::GPUFuncOp>(function));
      else if (waiting.contains(function))
        wait(cast<gpu::GPUFuncOp>(function));
    for (Operation *function : followed)
      letStart(cast<gpu::GPUFuncOp>(function));
  }

private:
  /// Lets the kernels that come next start, as soon as this one does or has waited.
  void letStart(gpu::GPUFuncOp function) {
    OpBuilder builder(function.getBody());
    if (Operation *waits = waiting.lookup(function); waits && !late.contains(function))
      builder.setInsertionPointAfter(waits);
    thread::DependentLaunchOp::create(builder, function->getLoc());
  }

  /// Waits before the end: later kernels rely on everything before this one.
  void waitLast(gpu::GPUFuncOp function) {
    OpBuilder builder(function.getBody().front().getTerminator());
    waiting[function] = thread::DependentWaitOp::create(builder, function.getLoc());
  }

  /// Waits before the first op that may touch what the kernels before write. What the kernel loads
  /// at its start of what is there already goes before that.
  void wait(gpu::GPUFuncOp function) {
    Operation *first = nullptr;
    SmallVector<Operation *> early;
    for (Operation &op : function.getBody().front()) {
      bool ready = loadsSettled(&op, function);
      if (ready)
        early.push_back(&op);
      if (ready || isPure(&op) || isa<thread::CopyCommitOp>(op) || setsUpBarriers(op))
        continue;
      if (!first)
        first = &op;
      if (!isa<thread::CopyAsyncOp, thread::GatherAsyncOp, thread::LoadGlobalOp>(op))
        break;
    }
    for (Operation *load : early)
      if (!load->isBeforeInBlock(first))
        hoist(load, first);
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

  /// Whether an op loads only what is there when its kernel starts.
  bool loadsSettled(Operation *op, gpu::GPUFuncOp function) const {
    if (auto copy = dyn_cast<thread::CopyAsyncOp>(op))
      return isSettled(copy.getSource(), function);
    if (auto gather = dyn_cast<thread::GatherAsyncOp>(op))
      return isSettled(gather.getTable(), function) && isSettled(gather.getIndices(), function);
    if (auto indices = dyn_cast<thread::ReadIndicesOp>(op))
      return isSettled(indices.getIndices(), function);
    if (auto load = dyn_cast<thread::LoadGlobalOp>(op))
      return isSettled(load.getSource(), function);
    if (auto element = dyn_cast<memref::LoadOp>(op))
      return isSettled(element.getMemRef(), function);
    return false;
  }

  bool isSettled(Value source, gpu::GPUFuncOp function) const {
    auto argument = dyn_cast<BlockArgument>(source);
    if (!argument || argument.getOwner() != &function.getBody().front())
      return false;
    auto known = settled.find(function);
    return known != settled.end() && known->second.test(argument.getArgNumber());
  }

  /// Moves an op and what it needs of the block before another one, unless it needs what is not
  /// there by then.
  static void hoist(Operation *op, Operation *before) {
    llvm::SetVector<Operation *> needed;
    needed.insert(op);
    for (size_t i = 0; i < needed.size(); ++i)
      for (Value operand : needed[i]->getOperands()) {
        Operation *made = operand.getDefiningOp();
        if (!made || made->getBlock() != op->getBlock() || made->isBeforeInBlock(before))
          continue;
        if (!isPure(made))
          return;
        needed.insert(made);
      }
    SmallVector<Operation *> order = needed.takeVector();
    llvm::sort(order, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    for (Operation *moved : order)
      moved->moveBefore(before);
  }

  void overlap(kernel::GraphOp graph) {
    // A function has one place where it waits, so one that is called again waits first.
    auto beside = thread::kernelsBeside(
        graph, [&](kernel::InvokeOp invoke) { return calls.lookup(invoke.getCallee()) == 1; });
    SmallVector<kernel::InvokeOp> running;
    bool isFirst = true;
    for (Operation &op : graph.getBody().front().without_terminator()) {
      if (thread::isViewOfMemory(op))
        continue;
      auto invoke = dyn_cast<kernel::InvokeOp>(op);
      int64_t number = 0;
      if (invoke && (!running.empty() || (follows && isFirst))) {
        invoke.setDependent(true);
        ++numDependent;
        Operation *function = note(invoke, running);
        waiting.try_emplace(function, nullptr);
        if (!running.empty())
          followed.insert(note(running.back(), {}));
        else // of what it reads, kernels that are not known may write anything
          settled[function].reset();
        number = beside.lookup(invoke);
        if (number) {
          invoke.setBeside(number);
          late.insert(function);
          ++numBeside;
        }
      }
      if (!number)
        running.clear();
      if (invoke)
        running.push_back(invoke);
      isFirst = false;
    }
    if (!running.empty() && follows)
      followed.insert(note(running.back(), {}));
  }

  /// Records which arguments of a kernel are settled when it starts while others are `running`.
  Operation *note(kernel::InvokeOp invoke, ArrayRef<kernel::InvokeOp> running) {
    Operation *function = SymbolTable::lookupSymbolIn(getOperation(), invoke.getCallee());
    functions.insert(function);
    // Results come after the operands.
    auto [known, isNew] =
        settled.try_emplace(function, cast<gpu::GPUFuncOp>(function).getNumArguments(), false);
    for (auto [number, operand] : llvm::enumerate(invoke.getOperands())) {
      bool isThere = isThereBefore(operand, running);
      known->second[number] = isThere && (isNew || known->second.test(number));
    }
    return function;
  }

  /// Whether a value is an input of its graph, or what a kernel has written that ended before those
  /// that are `running` started, or a view of one.
  static bool isThereBefore(Value value, ArrayRef<kernel::InvokeOp> running) {
    while (isa_and_present<kernel::ReshapeOp, kernel::SliceOp>(value.getDefiningOp()))
      value = value.getDefiningOp()->getOperand(0);
    if (isa<BlockArgument>(value))
      return true;
    auto writer = value.getDefiningOp<kernel::InvokeOp>();
    return writer && !llvm::is_contained(running, writer);
  }

  llvm::SetVector<Operation *> functions;
  /// The kernels that wait, and where.
  DenseMap<Operation *, Operation *> waiting;
  /// The kernels that let the next ones start.
  llvm::SetVector<Operation *> followed;
  /// How often each kernel is called.
  DenseMap<Attribute, unsigned> calls;
  /// The kernels that wait at their end.
  DenseSet<Operation *> late;
  /// Which arguments of a kernel are there when it starts, wherever it is called.
  DenseMap<Operation *, llvm::BitVector> settled;
};
} // namespace
