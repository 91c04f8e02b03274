//===- PlanSharedMemory.cpp - offsets of shared tiles and scratch ---------===//

#include "mirage/Dialect/Kernel/IR/Kernel.h"
#include "mirage/Dialect/Thread/IR/Thread.h"
#include "mirage/Dialect/Thread/Transforms/Passes.h"
#include "mirage/Dialect/Thread/Transforms/SharedMemoryProblem.h"
#include "mirage/Target/Resolve.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"

namespace mirage::thread {
#define GEN_PASS_DEF_PLANSHAREDMEMORY
#include "mirage/Dialect/Thread/Transforms/Passes.h.inc"
} // namespace mirage::thread

using namespace mlir;
using namespace mirage;
using namespace mirage::thread;

namespace {

/// An allocation or the scratch area of an op, with the ops that touch it.
struct Buffer {
  Operation *owner;
  bool isScratch;
  SmallVector<Operation *> accesses;
};

/// The buffers of one function, as a storage allocation problem in which time
/// is the position of ops in the function.
class FunctionBuffers {
public:
  explicit FunctionBuffers(gpu::GPUFuncOp function) : function(function) {
    function.walk<WalkOrder::PreOrder>([&](Operation *op) { order[op] = order.size(); });
    function.walk([&](Operation *op) { end[op] = getLastPosition(op); });
    findRoles();
    function.walk([&](Operation *op) { add(op); });
  }

  ArrayRef<Buffer> getBuffers() const { return buffers; }
  const SharedMemoryProblem &getProblem() const { return problem; }

  /// Inserts barriers where a buffer takes over memory of an earlier one.
  int64_t separate(ArrayRef<int64_t> offsets);

private:
  int64_t getLastPosition(Operation *op) {
    int64_t last = order[op];
    op->walk([&](Operation *inner) { last = std::max<int64_t>(last, order[inner]); });
    return last;
  }

  void add(Operation *op) {
    if (auto alloc = dyn_cast<SharedAllocOp>(op)) {
      Buffer buffer{op, false, {}};
      collectAccesses(alloc.getResult(), buffer.accesses);
      if (buffer.accesses.empty())
        return;
      SharedBuffer extent{alloc.getType().getTotalBytes(), alloc.getType().getAlignment(),
                          std::numeric_limits<int64_t>::max(), 0};
      for (Operation *access : buffer.accesses) {
        auto [first, last] = getTime(access);
        extent.start = std::min(extent.start, first);
        extent.end = std::max(extent.end, last);
      }
      buffers.push_back(std::move(buffer));
      problem.buffers.push_back(extent);
    } else if (auto barriers = dyn_cast<MbarrierAllocOp>(op)) {
      // An mbarrier's memory cannot be used for anything else while a thread may wait.
      buffers.push_back({op, false, {op}});
      problem.buffers.push_back(
          {barriers.getType().getCount() * 8, 8, order[op], end[function.getOperation()]});
    } else if (auto scratch = dyn_cast<ScratchOpInterface>(op)) {
      if (scratch.getScratchBytes() == 0)
        return;
      int64_t first = order[op], last = order[op];
      if (isWithinRoles(op) && !reader)
        std::tie(first, last) = roles;
      // Others write to it as soon as they get there.
      if (isa<ClusterGatherOp>(op))
        first = 0;
      buffers.push_back({op, true, {op}});
      problem.buffers.push_back({scratch.getScratchBytes(), 16, first, last});
    }
  }

  /// Whether the role only starts copies to shared memory.
  static bool isProducer(WarpsOp role) {
    return !role.walk([](Operation *op) {
                  auto scratch = dyn_cast<ScratchOpInterface>(op);
                  bool usesShared = (scratch && scratch.getScratchBytes()) ||
                                    llvm::any_of(op->getOperandTypes(), llvm::IsaPred<SharedType>);
                  bool isFine = isa<SlotOp, TmaLoadOp, BulkCopyOp, GatherAsyncOp>(op);
                  return usesShared && !isFine ? WalkResult::interrupt() : WalkResult::advance();
                })
                .wasInterrupted();
  }

  /// All roles of the function, and the only one that is not a producer, if so.
  void findRoles() {
    SmallVector<WarpsOp> readers;
    for (auto role : function.getBody().getOps<WarpsOp>()) {
      roles.first = std::min(roles.first, order[role]);
      roles.second = std::max(roles.second, end[role]);
      if (!isProducer(role))
        readers.push_back(role);
    }
    if (readers.size() == 1)
      reader = readers.front();
  }

  bool isWithinRoles(Operation *op) const {
    return order.lookup(op) >= roles.first && order.lookup(op) <= roles.second;
  }

  /// First and last position at which an access may happen. Buffers that are used in a loop are
  /// alive throughout the loop.
  std::pair<int64_t, int64_t> getTime(Operation *access) {
    Operation *top = access, *within = access;
    while (top->getParentOp() != function) {
      within = top;
      top = top->getParentOp();
    }
    if (!isa<WarpsOp>(top))
      return {order[top], end[top]};
    // About a copy from another block of the cluster, this block only knows that the other one has
    // passed their common barrier.
    auto load = dyn_cast<TmaLoadOp>(access);
    int64_t first = load && load.getMulticast() ? getClusterStart() : roles.first;
    if (!reader)
      return {first, roles.second};
    if (top == reader)
      return {order[within], end[within]};
    // A copy for which the reader waits.
    return {first, roles.first};
  }

  /// Where blocks of a cluster first wait for each other, or the start of the roles.
  int64_t getClusterStart() {
    auto barriers = function.getBody().getOps<ClusterBarrierOp>();
    return barriers.empty() ? roles.first
                            : std::min<int64_t>(roles.first, order[*barriers.begin()]);
  }

  static void collectAccesses(Value value, SmallVectorImpl<Operation *> &accesses) {
    for (Operation *user : value.getUsers()) {
      if (isa<SlotOp, GroupRowsOp>(user))
        collectAccesses(user->getResult(0), accesses);
      else
        accesses.push_back(user);
    }
  }

  /// Whether all warps wait for each other between the ends of `first` and the
  /// start of `second`, on every path.
  bool isSeparated(Operation *first, Operation *second) const;

  gpu::GPUFuncOp function;
  DenseMap<Operation *, int64_t> order, end;
  /// First and last position within roles.
  std::pair<int64_t, int64_t> roles{std::numeric_limits<int64_t>::max(), -1};
  WarpsOp reader;
  SmallVector<Buffer> buffers;
  SharedMemoryProblem problem;
};

} // namespace

/// Whether not only groups of warps wait for each other.
static bool isWholeBarrier(Operation *op) {
  auto barrier = dyn_cast<BarrierOp>(op);
  return (barrier && !barrier.getGroup()) || isa<ClusterBarrierOp>(op);
}

bool FunctionBuffers::isSeparated(Operation *first, Operation *second) const {
  // The ancestors of both in their common block; barriers between these are on every path, those
  // inside of other ops may not be.
  Block *common = second->getBlock();
  Operation *from = nullptr, *to = nullptr;
  while (common) {
    from = common->findAncestorOpInBlock(*first);
    to = common->findAncestorOpInBlock(*second);
    if (from && to)
      break;
    Operation *parent = common->getParentOp();
    common = parent == function ? nullptr : parent->getBlock();
  }
  if (!common)
    return false;
  for (Operation *op = from->getNextNode(); op && op != to; op = op->getNextNode())
    if (isWholeBarrier(op))
      return true;
  // Barriers before `second` in its own blocks, up to the common one.
  for (Operation *at = second; at != to; at = at->getParentOp())
    for (Operation *op = at->getPrevNode(); op; op = op->getPrevNode())
      if (isWholeBarrier(op))
        return true;
  return false;
}

int64_t FunctionBuffers::separate(ArrayRef<int64_t> offsets) {
  int64_t inserted = 0;
  for (size_t later = 0; later < buffers.size(); ++later) {
    // Scratch ops wait for the block before they write.
    if (buffers[later].isScratch)
      continue;
    Operation *first = *llvm::min_element(
        buffers[later].accesses, [&](Operation *a, Operation *b) { return order[a] < order[b]; });
    for (size_t earlier = 0; earlier < buffers.size(); ++earlier) {
      const SharedBuffer &a = problem.buffers[earlier], &b = problem.buffers[later];
      bool sharesMemory = offsets[earlier] < offsets[later] + b.bytes &&
                          offsets[later] < offsets[earlier] + a.bytes;
      if (earlier == later || !sharesMemory || a.end >= b.start)
        continue;
      Operation *last =
          *llvm::max_element(buffers[earlier].accesses,
                             [&](Operation *x, Operation *y) { return order[x] < order[y]; });
      if (isSeparated(last, first))
        continue;
      OpBuilder builder(first);
      BarrierOp::create(builder, first->getLoc());
      ++inserted;
    }
  }
  return inserted;
}

namespace {
struct PlanSharedMemory : thread::impl::PlanSharedMemoryBase<PlanSharedMemory> {
  using PlanSharedMemoryBase::PlanSharedMemoryBase;

  void runOnOperation() override {
    FailureOr<const Chip *> target = getChip(getOperation()->getLoc(), chip);
    if (failed(target))
      return signalPassFailure();
    DenseMap<Attribute, int64_t> bytes;
    WalkResult walk = getOperation()->walk([&](gpu::GPUFuncOp function) {
      FailureOr<int64_t> total = plan(function, **target);
      if (failed(total))
        return WalkResult::interrupt();
      auto module = function->getParentOfType<gpu::GPUModuleOp>();
      bytes[SymbolRefAttr::get(module.getNameAttr(),
                               {FlatSymbolRefAttr::get(&getContext(), function.getName())})] =
          *total;
      return WalkResult::advance();
    });
    if (walk.wasInterrupted())
      return signalPassFailure();
    getOperation()->walk([&](kernel::InvokeOp invoke) {
      if (auto it = bytes.find(invoke.getCallee()); it != bytes.end())
        invoke.setShared(it->second);
    });
  }

private:
  FailureOr<int64_t> plan(gpu::GPUFuncOp function, const Chip &target) {
    constexpr size_t maxExact = 10;
    FunctionBuffers all(function);
    const SharedMemoryProblem &problem = all.getProblem();
    if (auto wrong = problem.check())
      return function.emitOpError("shared memory plan is ill-posed: ") << *wrong;
    SharedMemoryPlan plan =
        problem.buffers.size() <= maxExact ? solveExactly(problem) : solveFirstFitBySize(problem);
    if (auto wrong = problem.verify(plan.offsets))
      return function.emitOpError("shared memory plan is wrong: ") << *wrong;
    if (plan.total > target.sharedBlock)
      return reportOverflow(function, target, all, plan);
    Builder builder(&getContext());
    for (auto [buffer, offset] : llvm::zip_equal(all.getBuffers(), plan.offsets)) {
      if (auto alloc = dyn_cast<SharedAllocOp>(buffer.owner))
        alloc.setOffset(offset);
      else if (auto barriers = dyn_cast<MbarrierAllocOp>(buffer.owner))
        barriers.setOffset(offset);
      else
        cast<ScratchOpInterface>(buffer.owner).setScratchOffset(offset);
    }
    numBuffers += problem.buffers.size();
    numBarriers += all.separate(plan.offsets);
    function->setAttr("thread.shared_bytes", builder.getI64IntegerAttr(plan.total));
    return plan.total;
  }

  static LogicalResult reportOverflow(gpu::GPUFuncOp function, const Chip &target,
                                      const FunctionBuffers &all, const SharedMemoryPlan &plan) {
    InFlightDiagnostic diag = function.emitOpError("expected at most ")
                              << target.sharedBlock << " bytes of shared memory on "
                              << StringRef(target.name) << ", got " << plan.total
                              << "; use smaller tiles or fewer stages";
    for (auto [buffer, extent] : llvm::zip_equal(all.getBuffers(), all.getProblem().buffers)) {
      Diagnostic &note = diag.attachNote(buffer.owner->getLoc());
      note << extent.bytes << " bytes for ";
      if (auto alloc = dyn_cast<SharedAllocOp>(buffer.owner))
        note << alloc.getType();
      else if (auto barriers = dyn_cast<MbarrierAllocOp>(buffer.owner))
        note << barriers.getType();
      else
        note << "the scratch memory of " << buffer.owner->getName();
    }
    return diag;
  }
};
} // namespace
