//===- CheckChip.cpp - no more than the chip can do -----------------------===//

#include "mirage/Dialect/Thread/IR/Needs.h"
#include "mirage/Dialect/Thread/IR/Thread.h"
#include "mirage/Dialect/Thread/Transforms/Passes.h"
#include "mirage/Target/Resolve.h"

#include "mlir/IR/BuiltinOps.h"

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
    if (!fits)
      signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
