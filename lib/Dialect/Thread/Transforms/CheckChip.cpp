//===- CheckChip.cpp - no more than the chip can do -----------------------===//

#include "mirage/Dialect/Thread/IR/Needs.h"
#include "mirage/Dialect/Thread/IR/Thread.h"
#include "mirage/Dialect/Thread/Transforms/Passes.h"
#include "mirage/Target/Resolve.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <utility>

namespace mirage::thread {
#define GEN_PASS_DEF_CHECKCHIP
#include "mirage/Dialect/Thread/Transforms/Passes.h.inc"
} // namespace mirage::thread

using namespace mlir;
using namespace mirage;

template <int... abilities>
static std::optional<Ability> findNeed(Operation *op, std::integer_sequence<int, abilities...>) {
  std::optional<Ability> found;
  ((op->hasTrait<thread::Needs<Ability(abilities)>::template Impl>()
        ? void(found = Ability(abilities))
        : void()),
   ...);
  return found;
}

std::optional<Ability> mirage::thread::getNeed(Operation *op) {
  return findNeed(op, std::make_integer_sequence<int, numAbilities>());
}

/// Whether a value is the same at all steps of a loop.
static bool isInvariant(Value value, LoopLikeOpInterface loop) {
  if (loop.isDefinedOutsideOfLoop(value))
    return true;
  Operation *made = value.getDefiningOp();
  return made && isPure(made) && llvm::all_of(made->getOperands(), [&](Value operand) {
           return isInvariant(operand, loop);
         });
}

/// Whether a product reads the same factor from registers at all steps of its loop.
static bool keepsFactor(thread::WgmmaOp op) {
  auto loop = op->getParentOfType<LoopLikeOpInterface>();
  return loop && isa<thread::FragmentType>(op.getLhs().getType()) && isInvariant(op.getLhs(), loop);
}

/// Whether a product that reads another factor from registers is issued together with this one.
static bool hasCompany(thread::WgmmaOp op) {
  auto search = [](Operation *at, auto next) {
    for (; at && !isa<thread::WgmmaWaitOp>(at); at = next(at))
      if (auto other = dyn_cast<thread::WgmmaOp>(at))
        if (isa<thread::FragmentType>(other.getLhs().getType()) && !keepsFactor(other))
          return true;
    return false;
  };
  return search(op->getNextNode(), [](Operation *at) { return at->getNextNode(); }) ||
         search(op->getPrevNode(), [](Operation *at) { return at->getPrevNode(); });
}

namespace {
struct CheckChip : thread::impl::CheckChipBase<CheckChip> {
  using CheckChipBase::CheckChipBase;

  void runOnOperation() override {
    FailureOr<const Chip *> target = getChip(getOperation()->getLoc(), chip);
    if (failed(target))
      return signalPassFailure();
    bool fits = true;
    getOperation()->walk([&](Operation *op) {
      std::optional<Ability> need = thread::getNeed(op);
      if (!need || (*target)->has(*need))
        return;
      op->emitOpError("expected a chip with ")
          << StringRef(mirage::getName(*need)) << ", got " << StringRef((*target)->name);
      fits = false;
    });
    getOperation()->walk([&](thread::WgmmaOp op) {
      if (!keepsFactor(op) || hasCompany(op))
        return;
      op.emitOpError(
          "expected a left factor in registers that steps of the loop make, or a product "
          "of such a factor issued beside this one: the assembler gives registers that "
          "all steps read to other values");
      fits = false;
    });
    if (!fits)
      signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
