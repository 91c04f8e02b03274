//===- WaitInRoles.cpp - roles wait for other kernels each by itself ------===//
//
// A step of the role that copies waits for a slot, says how many bytes will arrive, and
// starts copies, some of tensors that are there and some of what the kernel before
// writes. In the first round all slots are free:
//
//   for each slot:   wait, expect, copy what is there
//   wait for the kernel before
//   for each slot:   copy the rest
//   for other steps: wait, expect, copy all
//
//===----------------------------------------------------------------------===//

#include "WaitInRoles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mirage::thread;

namespace {
class Roles {
public:
  explicit Roles(llvm::function_ref<bool(Value)> ready) : ready(ready) {}

  bool loadsAhead = false;

  /// Waits in a block of ops, as late as possible.
  DependentWaitOp waitIn(Block &block) {
    for (Operation &op : block.without_terminator()) {
      if (staysInBlock(&op))
        continue;
      if (isReadyLoad(&op)) {
        loadsAhead = true;
        continue;
      }
      if (auto branch = dyn_cast<scf::IfOp>(op); branch && isAllThatFollows(branch))
        return waitIn(*branch.thenBlock());
      if (auto loop = dyn_cast<scf::ForOp>(op))
        if (std::optional<int64_t> slots = countSlotsAhead(loop))
          return split(loop, *slots);
      return waitBefore(&op);
    }
    return waitBefore(block.getTerminator());
  }

private:
  static DependentWaitOp waitBefore(Operation *op) {
    OpBuilder builder(op);
    return DependentWaitOp::create(builder, op->getLoc());
  }

  /// Whether an op touches no more than registers and barriers in shared memory.
  static bool staysInBlock(Operation *op) {
    bool isPure = op->getNumRegions() == 0 && mlir::isPure(op);
    return isPure || isa<MbarrierWaitOp, MbarrierExpectOp, SetMaxRegistersOp>(op);
  }

  bool isReadyLoad(Operation *op) const {
    auto load = dyn_cast<TmaLoadOp>(op);
    return load && ready(load.getMap());
  }

  /// Whether the threads outside of a branch have nothing to wait for.
  static bool isAllThatFollows(scf::IfOp branch) {
    return branch.getElseRegion().empty() && branch.getNumResults() == 0 &&
           isa<EndOp>(branch->getNextNode());
  }

  /// Slots that a loop's first steps fill, if it fills some of them with what is ready and some
  /// with what is not.
  std::optional<int64_t> countSlotsAhead(scf::ForOp loop) const {
    if (loop.getNumResults() || !matchPattern(loop.getLowerBound(), m_Zero()) ||
        !matchPattern(loop.getStep(), m_One()))
      return std::nullopt;
    std::optional<int64_t> slots;
    bool some = false, others = false;
    for (Operation &op : loop.getBody()->without_terminator()) {
      if (auto wait = dyn_cast<MbarrierWaitOp>(op)) {
        int64_t count = wait.getBarriers().getType().getCount();
        slots = std::min(slots.value_or(count), count);
      } else if (auto load = dyn_cast<TmaLoadOp>(op)) {
        if (load.getMulticast())
          return std::nullopt;
        (isReadyLoad(load) ? some : others) = true;
      } else if (!staysInBlock(&op)) {
        return std::nullopt;
      }
    }
    return some && others && slots ? std::optional(std::min<int64_t>(*slots, 2)) : std::nullopt;
  }

  DependentWaitOp split(scf::ForOp loop, int64_t slots) {
    loadsAhead = true;
    OpBuilder builder(loop);
    Location loc = loop.getLoc();
    Value first =
        arith::MinUIOp::create(builder, loc, loop.getUpperBound(),
                               arith::ConstantIndexOp::create(builder, loc, slots).getResult());
    auto stepsWith = [&](llvm::function_ref<bool(Operation *)> isTaken) {
      auto steps = scf::ForOp::create(builder, loc, loop.getLowerBound(), first, loop.getStep());
      OpBuilder inside(steps.getBody()->getTerminator());
      IRMapping mapping;
      mapping.map(loop.getInductionVar(), steps.getInductionVar());
      for (Operation &op : loop.getBody()->without_terminator())
        if (mlir::isPure(&op) || isTaken(&op))
          inside.clone(op, mapping);
    };
    stepsWith([&](Operation *op) { return !isa<TmaLoadOp>(op) || isReadyLoad(op); });
    auto wait = DependentWaitOp::create(builder, loc);
    stepsWith([&](Operation *op) { return isa<TmaLoadOp>(op) && !isReadyLoad(op); });
    loop.getLowerBoundMutable().assign(first);
    return wait;
  }

  llvm::function_ref<bool(Value)> ready;
};
} // namespace

std::optional<RoleWaits> mirage::thread::waitInRoles(Operation *first,
                                                     llvm::function_ref<bool(Value)> ready) {
  SmallVector<WarpsOp> roles;
  for (Operation *op = first; !op->hasTrait<OpTrait::IsTerminator>(); op = op->getNextNode()) {
    if (auto role = dyn_cast<WarpsOp>(op))
      roles.push_back(role);
    else if (!isa<BarrierOp, ClusterBarrierOp>(op) && (op->getNumRegions() || !mlir::isPure(op)))
      return std::nullopt;
  }
  if (roles.empty())
    return std::nullopt;
  Roles waits(ready);
  RoleWaits result;
  for (WarpsOp role : roles)
    result.last = waits.waitIn(role.getBody().front());
  result.loadsAhead = waits.loadsAhead;
  return result;
}
