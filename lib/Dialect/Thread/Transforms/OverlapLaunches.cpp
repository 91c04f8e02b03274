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
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/SetVector.h"

#include <numeric>

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
    FailureOr<const Chip *> found = getChip(getOperation()->getLoc(), chip);
    if (failed(found))
      return signalPassFailure();
    target = *found;
    if (!target->has(Ability::DependentLaunch))
      return markAllAnalysesPreserved();
    getOperation()->walk([&](kernel::InvokeOp invoke) { ++calls[invoke.getCallee()]; });
    getOperation()->walk([&](kernel::GraphOp graph) { overlap(graph); });
    // A kernel may be called in several places: waiting where there is nothing to wait for, and
    // allowing the start of a kernel that does not start early, do no harm.
    for (Operation *function : functions)
      if (late.contains(function))
        waitLast(cast<gpu::GPUFuncOp>(function));
      else if (waiting.contains(function))
        wait(cast<gpu::GPUFuncOp>(function));
    for (Operation *function : followed)
      letStart(cast<gpu::GPUFuncOp>(function));
  }

private:
  /// The last of a kernel's outermost loops.
  static Operation *lastLoop(Operation *function) {
    Operation *last = nullptr;
    function->walk<WalkOrder::PreOrder>([&](LoopLikeOpInterface loop) {
      last = loop;
      return WalkResult::skip();
    });
    return last;
  }

  /// Lets the next kernels start, as soon as this one has started or waited.
  void letStart(gpu::GPUFuncOp function) {
    OpBuilder builder(function.getBody());
    Operation *waits = waiting.lookup(function);
    if (waits && !late.contains(function) && !startsNext.contains(function))
      builder.setInsertionPointAfter(waits);
    thread::DependentLaunchOp::create(builder, function->getLoc());
  }

  /// Waits before the end: later kernels rely on everything before this one.
  void waitLast(gpu::GPUFuncOp function) {
    OpBuilder builder(function.getBody().front().getTerminator());
    waiting[function] = thread::DependentWaitOp::create(builder, function.getLoc());
  }

  /// Waits before the first op that may touch memory that the previous kernels write. Loads at the
  /// kernel's start of data that already exists go before that.
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

  /// Whether an op is a part of the setup of barriers in shared memory, or requests tensor maps.
  static bool setsUpBarriers(Operation &op) {
    return isa<thread::SharedAllocOp, thread::MbarrierAllocOp, thread::MbarrierInitOp,
               thread::PrefetchMapOp, thread::BarrierOp>(op);
  }

  static bool isPure(Operation *op) {
    return op->getNumRegions() == 0 && !op->hasTrait<OpTrait::IsTerminator>() && mlir::isPure(op);
  }

  /// Whether an op loads only data that exists when its kernel starts.
  bool loadsSettled(Operation *op, gpu::GPUFuncOp function) const {
    auto known = settled.find(function);
    return known != settled.end() && loadsOnly(op, known->second);
  }

  /// Whether an op loads only some of its kernel's arguments.
  static bool loadsOnly(Operation *op, const llvm::BitVector &arguments) {
    if (auto copy = dyn_cast<thread::CopyAsyncOp>(op))
      return isOneOf(copy.getSource(), op, arguments);
    if (auto gather = dyn_cast<thread::GatherAsyncOp>(op))
      return isOneOf(gather.getTable(), op, arguments) &&
             isOneOf(gather.getIndices(), op, arguments);
    if (auto indices = dyn_cast<thread::ReadIndicesOp>(op))
      return isOneOf(indices.getIndices(), op, arguments);
    if (auto load = dyn_cast<thread::LoadGlobalOp>(op))
      return isOneOf(load.getSource(), op, arguments);
    if (auto element = dyn_cast<memref::LoadOp>(op))
      return isOneOf(element.getMemRef(), op, arguments);
    if (auto formula = dyn_cast<thread::IntegersOp>(op))
      return !formula.getTables().empty() && llvm::all_of(formula.getTables(), [&](Value table) {
        return isOneOf(table, op, arguments);
      });
    return false;
  }

  static bool isOneOf(Value source, Operation *reader, const llvm::BitVector &arguments) {
    auto argument = dyn_cast<BlockArgument>(source);
    auto function = reader->getParentOfType<gpu::GPUFuncOp>();
    return argument && argument.getOwner() == &function.getBody().front() &&
           arguments.test(argument.getArgNumber());
  }

  /// Moves an op, with the ops of the block that it needs, before another op, unless it needs
  /// something that does not exist there.
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
    // A function waits at one place, so a function that is called again waits first.
    auto beside = thread::kernelsBeside(graph, [&](kernel::InvokeOp invoke) {
      return calls.lookup(invoke.getCallee()) == 1 && !loadsWhileOthersWait(invoke);
    });
    SmallVector<kernel::InvokeOp> running;
    SmallVector<kernel::InvokeOp> before; // what was running when the last kernel started
    bool isFirst = true;
    for (Operation &op : graph.getBody().front().without_terminator()) {
      if (thread::isViewOfMemory(op))
        continue;
      auto invoke = dyn_cast<kernel::InvokeOp>(op);
      int64_t number = 0;
      if (invoke && !running.empty() && !beside.lookup(invoke) && !beside.lookup(running.back()) &&
          mayStart(invoke, running.back(), before)) {
        running.insert(running.begin(), before.begin(), before.end());
        startsNext.insert(getFunction(running.back()));
      }
      SmallVector<kernel::InvokeOp> started = running;
      if (invoke && (!running.empty() || (follows && isFirst))) {
        invoke.setDependent(true);
        ++numDependent;
        Operation *function = note(invoke, running);
        waiting.try_emplace(function, nullptr);
        if (!running.empty())
          followed.insert(note(running.back(), {}));
        else // unknown kernels may write anything that it reads
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
      before = std::move(started);
      isFirst = false;
    }
    if (!running.empty() && follows)
      followed.insert(note(running.back(), {}));
  }

  Operation *getFunction(kernel::InvokeOp invoke) {
    return SymbolTable::lookupSymbolIn(getOperation(), invoke.getCallee());
  }

  /// Whether all blocks of a kernel may run at once.
  bool fitsAtOnce(kernel::InvokeOp invoke) {
    auto product = [](ArrayRef<int64_t> sizes) {
      return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
    };
    int64_t threads = product(invoke.getBlock());
    int64_t together = std::min(target->threadsSm / threads, target->blocksSm);
    if (int64_t shared = invoke.getShared())
      together = std::min(together, target->sharedSm / shared);
    return product(invoke.getGrid()) <= together * target->getFewestSms();
  }

  /// Whether a kernel is worth starting while the one before it, `last`, still waits for those
  /// that run `before` it: the last one only waits and has no loop whose loads it would disturb,
  /// and the next one has something to load that none of them writes, and no more blocks than can
  /// wait (rows of a softmax in 8016 blocks: 122 µs if they start early, 110 otherwise).
  bool mayStart(kernel::InvokeOp next, kernel::InvokeOp last, ArrayRef<kernel::InvokeOp> before) {
    Operation *waits = getFunction(last);
    if (before.empty() || calls.lookup(last.getCallee()) != 1 || lastLoop(waits) ||
        !fitsAtOnce(next))
      return false;
    SmallVector<kernel::InvokeOp> running(before);
    running.push_back(last);
    llvm::BitVector arguments(cast<gpu::GPUFuncOp>(getFunction(next)).getNumArguments());
    for (auto [number, operand] : llvm::enumerate(next.getOperands()))
      arguments[number] = isThereBefore(operand, running);
    return llvm::any_of(cast<gpu::GPUFuncOp>(getFunction(next)).getBody().front(),
                        [&](Operation &op) { return loadsOnly(&op, arguments); });
  }

  /// The kernel before another one, if only views are between them.
  static kernel::InvokeOp kernelBefore(kernel::InvokeOp invoke) {
    Operation *last = invoke->getPrevNode();
    while (last && thread::isViewOfMemory(*last))
      last = last->getPrevNode();
    return dyn_cast_if_present<kernel::InvokeOp>(last);
  }

  /// Whether a kernel that streams inputs follows one without a loop. It may start while that one
  /// still waits, and load as much as it has room for, which takes longer than that kernel; if it
  /// ran at the same time as that one, it would start after the wait.
  bool loadsWhileOthersWait(kernel::InvokeOp invoke) {
    kernel::InvokeOp before = kernelBefore(invoke);
    auto function = cast<gpu::GPUFuncOp>(getFunction(invoke));
    if (!before || !kernelBefore(before) || calls.lookup(before.getCallee()) != 1 ||
        lastLoop(getFunction(before)) || !lastLoop(function))
      return false;
    llvm::BitVector inputs(function.getNumArguments());
    for (auto [number, operand] : llvm::enumerate(invoke.getOperands()))
      inputs[number] = isa<BlockArgument>(wholeOf(operand));
    return llvm::any_of(function.getBody().front(),
                        [&](Operation &op) { return loadsOnly(&op, inputs); });
  }

  /// Records which arguments of a kernel are settled when it starts while others are `running`.
  Operation *note(kernel::InvokeOp invoke, ArrayRef<kernel::InvokeOp> running) {
    Operation *function = getFunction(invoke);
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

  /// Whether a value is an input of its graph, a result of a kernel that ended before those that
  /// are `running` started, or a view of one.
  static bool isThereBefore(Value value, ArrayRef<kernel::InvokeOp> running) {
    Value whole = wholeOf(value);
    auto writer = whole.getDefiningOp<kernel::InvokeOp>();
    return isa<BlockArgument>(whole) || (writer && !llvm::is_contained(running, writer));
  }

  /// The value of which a value is a view.
  static Value wholeOf(Value value) {
    while (isa_and_present<kernel::ReshapeOp, kernel::SliceOp>(value.getDefiningOp()))
      value = value.getDefiningOp()->getOperand(0);
    return value;
  }

  const Chip *target = nullptr;
  llvm::SetVector<Operation *> functions;
  /// The kernels that wait, and where.
  DenseMap<Operation *, Operation *> waiting;
  /// The kernels that let the next ones start.
  llvm::SetVector<Operation *> followed;
  /// How often each kernel is called.
  DenseMap<Attribute, unsigned> calls;
  /// The kernels that let the next one start before they wait themselves.
  DenseSet<Operation *> startsNext;
  /// The kernels that wait at their end.
  DenseSet<Operation *> late;
  /// The arguments of a kernel that exist when it starts, in all of its calls.
  DenseMap<Operation *, llvm::BitVector> settled;
};
} // namespace
