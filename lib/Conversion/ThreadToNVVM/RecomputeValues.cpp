//===- RecomputeValues.cpp - pairs are kept, what is computed from them is not ===//
//
// A value that is computed from 16-bit elements, and is needed again after a barrier, is computed
// again there if a thread has no registers for it: its elements take half as many. What is needed
// only behind the last barrier is loaded there.
//
//===----------------------------------------------------------------------===//

#include "LateOrder.h"

#include "mirage/Conversion/ThreadToNVVM/Passes.h"
#include "mirage/Target/Resolve.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/SetVector.h"

namespace mirage {
#define GEN_PASS_DEF_RECOMPUTEVALUES
#include "mirage/Conversion/ThreadToNVVM/Passes.h.inc"
} // namespace mirage

using namespace mlir;
using namespace mirage;

/// Registers of a thread other than those of values that live across barriers: addresses, and
/// numbers in flight.
constexpr int64_t kOthers = 16;
/// The warps for which a multiprocessor has room where blocks wait for the others of their cluster,
/// so that some work meanwhile; and the further registers of a thread for addresses in these.
constexpr int64_t kWarpsBeside = 32, kOthersBeside = 8;
/// The most ops that are repeated for a value.
constexpr size_t kMostOps = 16;

static bool isBarrier(Operation &op) {
  if (isa<NVVM::ClusterWaitOp>(op))
    return true;
  auto call = dyn_cast<LLVM::CallIntrinsicOp>(op);
  return call && call.getIntrin().starts_with("llvm.nvvm.barrier.cta.sync");
}

/// Whether the op is or contains a barrier.
static bool hasBarrier(Operation &op) {
  WalkResult found = op.walk([](Operation *inner) {
    return isBarrier(*inner) ? WalkResult::interrupt() : WalkResult::advance();
  });
  return found.wasInterrupted();
}

/// Whether the value is a vector of 2-byte floats whose words are registers.
static bool isPacked(Value value) {
  auto type = dyn_cast<VectorType>(value.getType());
  return type && type.getElementType().isFloat() && type.getElementTypeBitWidth() == 16 &&
         type.getRank() == 1 && type.getNumElements() % 2 == 0;
}

static bool isGlobal(Value pointer) {
  return cast<LLVM::LLVMPointerType>(pointer.getType()).getAddressSpace() ==
         static_cast<unsigned>(NVVM::NVVMMemorySpace::Global);
}

namespace {
/// How a value can be computed again.
struct Cone {
  llvm::SetVector<Operation *> ops; // operands first
  llvm::SetVector<Value> packed, others;

  void add(const Cone &other) {
    ops.insert_range(other.ops);
    packed.insert_range(other.packed);
    others.insert_range(other.others);
  }
};

/// The cones of the values of a block.
class Cones {
public:
  explicit Cones(Block &block) : block(block) {}

  const Cone &get(Value value) {
    if (auto known = cones.find(value); known != cones.end())
      return known->second;
    Cone cone = compute(value);
    return cones[value] = std::move(cone);
  }

private:
  /// A value that takes too many ops, or that no element is part of, such as a row's total, is
  /// not computed again.
  Cone compute(Value value) {
    Operation *op = value.getDefiningOp();
    Cone cone;
    if (isPacked(value)) {
      cone.packed.insert(value);
      return cone;
    }
    if (op && op->getBlock() == &block && isScalarArithmetic(op)) {
      for (Value operand : op->getOperands())
        cone.add(Cone(get(operand)));
      cone.ops.insert(op);
      if (!cone.packed.empty() && cone.ops.size() <= kMostOps)
        return cone;
    }
    Cone whole;
    if (!op || !op->hasTrait<OpTrait::ConstantLike>())
      whole.others.insert(value);
    return whole;
  }

  Block &block;
  DenseMap<Value, Cone> cones;
};

/// Computes values again after the barriers of one block.
class Recomputer {
public:
  /// `budget` registers should do, and there are no more than `most`.
  Recomputer(Block &block, int64_t budget, int64_t most)
      : block(block), budget(budget), most(most), late(block) {}

  bool run() {
    SmallVector<Operation *> barriers;
    Operation *last = nullptr;
    for (Operation &op : block) {
      if (isBarrier(op))
        barriers.push_back(&op);
      if (hasBarrier(op))
        last = &op;
    }
    auto isShort = [&](Operation *barrier) { return measure(barrier).before > budget; };
    if (!last || (countLoaded(last) <= budget && llvm::none_of(barriers, isShort)))
      return false;
    late.findLate(last);
    if (late.hasLate())
      late.apply(kFewestAhead);
    bool isChanged = late.hasLate();
    for (Operation *barrier : barriers)
      isChanged |= visit(barrier);
    if (!isChanged)
      return false;
    int64_t kept = measure(last).after;
    suffices = kept + kFewestAhead <= budget;
    late.apply(std::clamp((suffices ? budget : most) - kept, kFewestAhead, kMostAhead));
    return true;
  }

  /// Whether the budget is enough for what is kept.
  bool isEnough() const { return suffices; }

private:
  /// Uses of the value behind the barrier.
  SmallVector<OpOperand *> usesAfter(Value value, Operation *barrier) {
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : value.getUses())
      if (Operation *user = block.findAncestorOpInBlock(*use.getOwner());
          user && barrier->isBeforeInBlock(user))
        uses.push_back(&use);
    return uses;
  }

  /// The registers of what lives across a barrier, as it is and if `again` is computed again, and
  /// of what is loaded behind it, except for late loads.
  struct Measured {
    int64_t before = 0, after = 0;
    SmallVector<Value> again;
  };

  Measured measure(Operation *barrier) {
    Measured measured;
    llvm::SetVector<Value> before, after;
    Cones cones(block);
    for (Operation &op : block) {
      if (&op == barrier)
        break;
      for (Value value : op.getResults()) {
        if (op.hasTrait<OpTrait::ConstantLike>() || usesAfter(value, barrier).empty())
          continue;
        // An element shares the register of its vector.
        if (isa<vector::ExtractOp>(op) && isPacked(op.getOperand(0)))
          value = op.getOperand(0);
        before.insert(value);
        const Cone &cone = cones.get(value);
        if (!value.getType().isF32() || cone.ops.empty()) {
          after.insert(value);
          continue;
        }
        measured.again.push_back(value);
        after.insert_range(cone.packed);
        after.insert_range(cone.others);
      }
    }
    for (Value value : before)
      measured.before += countWords(value);
    for (Value value : after)
      measured.after += countWords(value);
    // The assembler loads early what is loaded from tensors behind a barrier.
    measured.after += countLoaded(barrier);
    return measured;
  }

  /// The registers of what is loaded from tensors behind the barrier, except for late loads.
  int64_t countLoaded(Operation *barrier) {
    int64_t words = 0;
    for (auto load : block.getOps<LLVM::LoadOp>())
      if (barrier->isBeforeInBlock(load) && isGlobal(load.getAddr()) && !late.isLate(load))
        words += countWords(load.getResult());
    return words;
  }

  bool visit(Operation *barrier) {
    Measured measured = measure(barrier);
    int64_t ahead = late.hasLate() ? kFewestAhead : 0;
    if (measured.before <= budget || measured.after + ahead > most)
      return false;
    Cones cones(block);
    IRMapping kept = keep(barrier, measured.again, cones);
    for (Value value : measured.again)
      replace(barrier, value, cones.get(value), kept);
    return true;
  }

  /// The elements behind the barrier, as values from which nothing has been computed yet: otherwise
  /// compilers would compute once what is computed twice.
  IRMapping keep(Operation *barrier, ArrayRef<Value> again, Cones &cones) {
    IRMapping kept;
    ImplicitLocOpBuilder builder(barrier->getLoc(), barrier->getContext());
    builder.setInsertionPointAfter(barrier);
    Type word = builder.getI32Type();
    for (Value value : again)
      for (Value vector : cones.get(value).packed) {
        if (kept.contains(vector))
          continue;
        auto type = cast<VectorType>(vector.getType());
        auto words = VectorType::get({type.getNumElements() / 2}, word);
        Value bits = vector::BitCastOp::create(builder, words, vector);
        SmallVector<Value> same;
        for (int64_t i = 0; i < words.getNumElements(); ++i) {
          Value part = vector::ExtractOp::create(builder, bits, i);
          same.push_back(LLVM::InlineAsmOp::create(
                             builder, TypeRange(word), ValueRange(part), "", "=r,0",
                             /*has_side_effects=*/true, /*is_align_stack=*/false,
                             LLVM::TailCallKind::None, LLVM::AsmDialectAttr(), ArrayAttr())
                             .getRes());
        }
        Value joined = vector::FromElementsOp::create(builder, words, same);
        Value hidden = vector::BitCastOp::create(builder, type, joined);
        // Extracts from the vector behind the barrier take the new one.
        for (OpOperand *use : usesAfter(vector, barrier))
          if (use->getOwner() != bits.getDefiningOp())
            use->set(hidden);
        kept.map(vector, hidden);
      }
    return kept;
  }

  void replace(Operation *barrier, Value value, const Cone &cone, const IRMapping &kept) {
    SmallVector<OpOperand *> uses = usesAfter(value, barrier);
    if (uses.empty())
      return;
    Operation *first = nullptr;
    for (OpOperand *use : uses) {
      Operation *user = block.findAncestorOpInBlock(*use->getOwner());
      if (!first || user->isBeforeInBlock(first))
        first = user;
    }
    OpBuilder builder(first);
    IRMapping mapping(kept);
    for (Operation *op : cone.ops)
      builder.clone(*op, mapping);
    for (OpOperand *use : uses)
      use->set(mapping.lookup(value));
  }

  Block &block;
  const int64_t budget, most;
  bool suffices = false;
  LateOrder late;
};

struct RecomputeValuesPass : mirage::impl::RecomputeValuesBase<RecomputeValuesPass> {
  using RecomputeValuesBase::RecomputeValuesBase;

  void runOnOperation() override {
    FailureOr<const Chip *> target = getChip(getOperation()->getLoc(), chip);
    if (failed(target))
      return signalPassFailure();
    for (auto kernel : getOperation().getOps<gpu::GPUFuncOp>()) {
      std::optional<ArrayRef<int32_t>> threads = kernel.getKnownBlockSize();
      if (!threads)
        continue;
      Block &body = kernel.getBody().front();
      int64_t warps = threads->front() / 32;
      // If there are few blocks, there are none to work meanwhile.
      bool isFew = kernel->hasAttr(NVVM::NVVMDialect::getMinctasmAttrName());
      bool waits =
          !isFew && warps < kWarpsBeside && llvm::any_of(body, llvm::IsaPred<NVVM::ClusterWaitOp>);
      int64_t most = (*target)->getMostRegisters(warps) - kOthers;
      int64_t budget = most;
      if (waits)
        budget = (*target)->getMostRegisters(kWarpsBeside) - kOthers - kOthersBeside;
      Recomputer recomputer(body, budget, most);
      if (!recomputer.run())
        continue;
      ++numRecomputed;
      if (waits && recomputer.isEnough())
        kernel->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                        Builder(&getContext()).getI32IntegerAttr(int32_t(kWarpsBeside / warps)));
    }
  }
};
} // namespace
