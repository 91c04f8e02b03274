//===- GrantRegisters.cpp - registers that nobody else needs --------------===//

#include "mirage/Dialect/Kernel/IR/Kernel.h"
#include "mirage/Dialect/Thread/IR/Thread.h"
#include "mirage/Dialect/Thread/Transforms/Passes.h"
#include "mirage/Target/Resolve.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

namespace mirage::thread {
#define GEN_PASS_DEF_GRANTREGISTERS
#include "mirage/Dialect/Thread/Transforms/Passes.h.inc"
} // namespace mirage::thread

using namespace mlir;
using namespace mirage;

/// Registers of a thread from which on a limit does no harm.
constexpr int64_t kPlenty = 128;

/// Whether products of warpgroups keep their sums in registers, whose number cannot be reduced.
static bool multipliesByGroups(Operation *function) {
  return function->walk([](thread::WgmmaOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

namespace {
struct GrantRegisters : thread::impl::GrantRegistersBase<GrantRegisters> {
  using GrantRegistersBase::GrantRegistersBase;

  void runOnOperation() override {
    FailureOr<const Chip *> target = getChip(getOperation()->getLoc(), chip);
    if (failed(target))
      return signalPassFailure();
    // A kernel may be called in several places.
    llvm::MapVector<Operation *, int64_t> blocks;
    getOperation()->walk([&](kernel::InvokeOp invoke) {
      Operation *function = SymbolTable::lookupSymbolIn(getOperation(), invoke.getCallee());
      blocks[function] = std::max(blocks[function], llvm::product_of(invoke.getGrid()));
    });
    for (auto [function, count] : blocks) {
      std::optional<ArrayRef<int32_t>> threads = cast<gpu::GPUFuncOp>(function).getKnownBlockSize();
      if (!threads || count == 0 || multipliesByGroups(function))
        continue;
      int64_t together = llvm::divideCeil(count, (*target)->getFewestSms());
      if (together * threads->front() * kPlenty > (*target)->registersSm)
        continue;
      Builder builder(&getContext());
      function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                        builder.getI32IntegerAttr(static_cast<int32_t>(together)));
      ++numGranted;
    }
  }
};
} // namespace
