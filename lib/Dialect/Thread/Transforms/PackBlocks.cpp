//===- PackBlocks.cpp - several small blocks run as one -------------------===//

#include "mirage/Dialect/Kernel/IR/Kernel.h"
#include "mirage/Dialect/Thread/IR/Thread.h"
#include "mirage/Dialect/Thread/Transforms/Passes.h"
#include "mirage/Target/Resolve.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

namespace mirage::thread {
#define GEN_PASS_DEF_PACKBLOCKS
#include "mirage/Dialect/Thread/Transforms/Passes.h.inc"
} // namespace mirage::thread

using namespace mlir;
using namespace mirage;

/// The most threads of a block that consists of several.
constexpr int64_t kMostThreads = 256;
/// The most bytes that a thread of such blocks stores: others take long beside their start.
constexpr int64_t kMostStored = 32;
/// Blocks that are packed are at least this many times those that run at once.
constexpr int64_t kFewestWaves = 2;

/// Whether a value is in registers, or is a device tensor.
static bool isOfThreads(Type type) {
  return type.isIntOrIndexOrFloat() || isa<thread::FragmentType, MemRefType>(type);
}

/// Whether each warp runs an op without the others: no shared memory, no barrier, nothing that
/// depends on the number of the thread in the block otherwise than by the layouts of fragments.
static bool isOfWarpsAlone(Operation *op) {
  if (!llvm::all_of(op->getOperandTypes(), isOfThreads) ||
      !llvm::all_of(op->getResultTypes(), isOfThreads))
    return false;
  if (auto scratch = dyn_cast<thread::ScratchOpInterface>(op))
    return scratch.getScratchBytes() == 0;
  if (isa<gpu::BlockIdOp>(op))
    return cast<gpu::BlockIdOp>(op).getDimension() == gpu::Dimension::x;
  if (isa<gpu::GPUDialect>(op->getDialect()))
    return isa<gpu::ReturnOp>(op);
  return op->getNumRegions() == 0 &&
         (mlir::isPure(op) || isa<thread::LoadGlobalOp, thread::StoreGlobalOp,
                                  thread::DependentWaitOp, thread::DependentLaunchOp>(op));
}

/// Bytes that a thread of a kernel stores.
static int64_t countStoredBytes(gpu::GPUFuncOp function) {
  int64_t bytes = 0;
  function.walk([&](thread::StoreGlobalOp store) {
    int64_t bits = store.getDest().getType().getElementTypeBitWidth();
    bytes += store.getValue().getType().getNumRegisters() * bits / 8;
  });
  return bytes;
}

static bool isOfWarpsAlone(gpu::GPUFuncOp function) {
  for (unsigned i = 0, end = function.getNumArguments(); i < end; ++i)
    if (function.getArgAttr(i, thread::kSizeAttr))
      return false;
  return !function.getBody()
              .walk([](Operation *op) {
                return isOfWarpsAlone(op) ? WalkResult::advance() : WalkResult::interrupt();
              })
              .wasInterrupted();
}

namespace {
struct PackBlocks : thread::impl::PackBlocksBase<PackBlocks> {
  using PackBlocksBase::PackBlocksBase;

  void runOnOperation() override {
    FailureOr<const Chip *> found = getChip(getOperation()->getLoc(), chip);
    if (failed(found))
      return signalPassFailure();
    target = *found;
    llvm::MapVector<Operation *, SmallVector<kernel::InvokeOp>> calls;
    getOperation()->walk([&](kernel::InvokeOp invoke) {
      calls[SymbolTable::lookupSymbolIn(getOperation(), invoke.getCallee())].push_back(invoke);
    });
    for (auto &[callee, invokes] : calls) {
      auto function = cast<gpu::GPUFuncOp>(callee);
      // All calls have the same grid: they are of the same launch.
      int64_t together = countTogether(function, invokes.front());
      if (together > 1 && countStoredBytes(function) <= kMostStored && isOfWarpsAlone(function))
        pack(function, invokes, together);
    }
  }

private:
  /// The number of blocks to run as one: the largest one that divides the grid.
  int64_t countTogether(gpu::GPUFuncOp function, kernel::InvokeOp invoke) {
    std::optional<ArrayRef<int32_t>> threads = function.getKnownBlockSize();
    int64_t blocks = llvm::product_of(invoke.getGrid());
    if (!threads || invoke.getCluster() || invoke.getShared() || invoke.getGrid()[0] != blocks ||
        !llvm::isPowerOf2_32((*threads)[0]))
      return 1;
    int64_t atOnce = std::min(target->threadsSm / (*threads)[0], target->blocksSm);
    if (blocks < kFewestWaves * atOnce * target->getFewestSms())
      return 1;
    int64_t together = std::max<int64_t>(kMostThreads / (*threads)[0], 1);
    while (blocks % together)
      --together;
    return together;
  }

  void pack(gpu::GPUFuncOp function, ArrayRef<kernel::InvokeOp> invokes, int64_t together) {
    int64_t threads = (*function.getKnownBlockSize())[0];
    Builder attributes(&getContext());
    SmallVector<gpu::BlockIdOp> numbers;
    function.walk([&](gpu::BlockIdOp block) { numbers.push_back(block); });
    for (gpu::BlockIdOp block : numbers) {
      OpBuilder builder(&getContext());
      builder.setInsertionPointAfter(block);
      Location loc = block.getLoc();
      auto constant = [&](int64_t value) {
        return arith::ConstantIndexOp::create(builder, loc, value).getResult();
      };
      Value thread = gpu::ThreadIdOp::create(builder, loc, gpu::Dimension::x);
      Value first = arith::MulIOp::create(builder, loc, block, constant(together));
      Value inside = arith::DivUIOp::create(builder, loc, thread, constant(threads));
      Value number = arith::AddIOp::create(builder, loc, first, inside);
      block.getResult().replaceAllUsesExcept(number, first.getDefiningOp());
    }
    function.setKnownBlockSizeAttr(
        attributes.getDenseI32ArrayAttr({static_cast<int32_t>(threads * together), 1, 1}));
    function->setAttr(thread::kPackedAttr, attributes.getI64IntegerAttr(together));
    for (kernel::InvokeOp invoke : invokes) {
      invoke.setGrid({invoke.getGrid()[0] / together, 1, 1});
      invoke.setBlock({threads * together, 1, 1});
    }
    ++numPacked;
  }

  const Chip *target = nullptr;
};
} // namespace
