//===- MaskGuards.cpp - masks that most steps do not need -----------------===//

#include "MaskGuards.h"
#include "PositionTiles.h"
#include "TileEmitter.h"

#include "mirage/Dialect/Block/Analysis/HeldTile.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Iterators.h"

using namespace mlir;
using namespace mirage;
using block::getFragment;
using block::getTile;
using thread::FragmentType;

/// A branch costs about as much as these instructions of a thread.
static constexpr int64_t fewestRegisters = 8;

/// Whether the value is computed from a position.
static bool hasPositions(Value value) {
  Operation *op = value.getDefiningOp();
  return op && (isa<block::IotaOp>(op) || llvm::any_of(op->getOperands(), hasPositions));
}

static bool isPositionTruth(Value value) {
  auto tile = getPositionTile(value);
  return tile && tile->isTruth && hasPositions(value);
}

/// The operand that is the result of `op` where the other one, a mask, does
/// nothing.
static std::optional<MaskGuard> findGuard(block::BinaryOp op) {
  auto keeps = [&](unsigned kept) -> std::optional<MaskGuard> {
    Value value = op->getOperand(kept);
    if (block::isScalar(value) || getTile(value).getShape() != getTile(op.getResult()).getShape() ||
        getPositionTile(value))
      return std::nullopt;
    return MaskGuard{kept, 1 - kept, {}};
  };
  auto isBias = [&](unsigned number) {
    Value truth = getBiasedTruth(op->getOperand(number));
    return truth && hasPositions(truth);
  };
  switch (op.getFn()) {
  case BinaryFn::Add:
    return isBias(1) ? keeps(0) : isBias(0) ? keeps(1) : std::nullopt;
  case BinaryFn::Mul:
    return isPositionTruth(op.getRhs())   ? keeps(0)
           : isPositionTruth(op.getLhs()) ? keeps(1)
                                          : std::nullopt;
  case BinaryFn::Keep:
    return isPositionTruth(op.getLhs()) ? keeps(1) : std::nullopt;
  default:
    return std::nullopt;
  }
}

static std::optional<MaskGuard> findGuard(Operation *op) {
  if (auto binary = dyn_cast<block::BinaryOp>(op))
    return findGuard(binary);
  if (auto mask = dyn_cast<block::MaskOp>(op); mask && !mask.getAxes().empty())
    return MaskGuard{};
  return std::nullopt;
}

MaskGuards::MaskGuards(kernel::LaunchOp launch) {
  SmallVector<Operation *> masks;
  launch.getBody().walk([&](Operation *op) {
    if (!isa<block::LoopOp>(op->getParentOp()))
      return;
    std::optional<MaskGuard> guard = findGuard(op);
    FragmentType type = guard ? getFragment(op->getResult(0)) : FragmentType();
    if (!type || type.getNumRegisters() < fewestRegisters)
      return;
    guards[op] = *guard;
    masks.push_back(op);
  });
  // Ops that only masks need move along; those that use them come later.
  auto needs = [&](Operation *user, Value value) {
    const MaskGuard *guard = lookup(user);
    return sunk.contains(user) ||
           (guard && guard->mask && user->getOperand(*guard->mask) == value &&
            user->getOperand(guard->kept) != value);
  };
  launch.getBody().walk<WalkOrder::PostOrder, mlir::ReverseIterator>([&](Operation *op) {
    bool isPlain = isa<block::IotaOp, block::UnaryOp, block::BinaryOp, block::CastOp,
                       block::BroadcastOp, block::ReshapeOp, block::TransposeOp>(op);
    if (!isPlain || lookup(op) || op->use_empty() || !isa<block::LoopOp>(op->getParentOp()))
      return;
    Value value = op->getResult(0);
    bool isPosition = getPositionTile(value) || getBiasedTruth(value);
    if (isPosition && llvm::all_of(op->getUsers(), [&](Operation *user) {
          return user->getBlock() == op->getBlock() && needs(user, value);
        }))
      sunk.insert(op);
  });
  for (Operation *op : masks) {
    MaskGuard &guard = guards[op];
    Operation *made = op->getOperand(guard.kept).getDefiningOp();
    if (made && guards.contains(made) && made->hasOneUse() && made->getBlock() == op->getBlock()) {
      guard.before = made;
      sunk.insert(made);
    }
    if (!guard.mask)
      continue;
    llvm::SmallDenseSet<Operation *> found;
    auto collect = [&](auto &self, Value value) -> void {
      Operation *made = value.getDefiningOp();
      if (!made || !sunk.contains(made) || !found.insert(made).second)
        return;
      for (Value operand : made->getOperands())
        self(self, operand);
      guard.sunk.push_back(made);
    };
    collect(collect, op->getOperand(*guard.mask));
  }
}

const MaskGuard *MaskGuards::lookup(Operation *op) const {
  auto found = guards.find(op);
  return found == guards.end() ? nullptr : &found->second;
}

void TileEmitter::emitUnguarded(Operation *op, const MaskGuard &guard) {
  for (Operation *made : guard.sunk)
    emitOp(made);
  emitOp(op);
}

/// The op, unless its mask does nothing at this step: then the operand that is
/// kept. The same applies to the op before it, if that has a mask as well.
void TileEmitter::emitGuarded(Operation *op, const MaskGuard &guard) {
  Value result = op->getResult(0);
  FragmentType type = typeOf(result);
  SmallVector<Operation *> chain{op};
  const MaskGuard *first = &guard;
  for (; first->before; first = guards.lookup(first->before)) {
    if (typeOf(first->before->getResult(0)) != type) {
      emitGuarded(first->before, *guards.lookup(first->before));
      break;
    }
    chain.push_back(first->before);
  }
  Value kept = getOperand(chain.back()->getOperand(first->kept), type);
  if (kept.getType() != type) { // held in another way
    for (Operation *masked : llvm::reverse(chain))
      emitUnguarded(masked, *guards.lookup(masked));
    return;
  }
  Value isIdle;
  for (Operation *masked : llvm::reverse(chain)) {
    Value own = emitMaskIsIdle(masked, *guards.lookup(masked));
    isIdle = isIdle ? arith::AndIOp::create(builder, loc, isIdle, own) : own;
  }
  auto branch = scf::IfOp::create(builder, loc, TypeRange(type), isIdle, /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard restore(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(builder, loc, kept);
    builder.setInsertionPointToStart(branch.elseBlock());
    for (Operation *masked : llvm::reverse(chain))
      emitUnguarded(masked, *guards.lookup(masked));
    scf::YieldOp::create(builder, loc, get(result));
  }
  for (Operation *masked : chain) {
    fragments.erase(masked->getResult(0));
    for (Operation *made : guards.lookup(masked)->sunk)
      fragments.erase(made->getResult(0));
  }
  fragments[result] = branch.getResult(0);
}
