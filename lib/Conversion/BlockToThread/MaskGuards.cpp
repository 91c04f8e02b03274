//===- MaskGuards.cpp - masks that most steps do not need -----------------===//

#include "MaskGuards.h"
#include "TileEmitter.h"

#include "mirage/Dialect/Block/Analysis/HeldTile.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Iterators.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mirage;
using block::getFragment;
using block::getTile;
using thread::FragmentType;

/// Whole numbers up to here are exact in f32.
static constexpr int64_t exactNumbers = int64_t(1) << 24;
/// A branch costs about as much as these instructions of a thread.
static constexpr int64_t fewestRegisters = 8;

//===----------------------------------------------------------------------===//
// Which tiles positions decide
//===----------------------------------------------------------------------===//

/// The operand of an op whose elements are all among the operand's.
static Value getRearranged(Operation *op) {
  if (isa<block::BroadcastOp, block::ReshapeOp, block::TransposeOp, block::ConvertLayoutOp>(op))
    return op->getOperand(0);
  return {};
}

static std::optional<PositionTile> getOfBinary(block::BinaryOp op) {
  auto lhs = getPositionTile(op.getLhs()), rhs = getPositionTile(op.getRhs());
  if (!lhs || !rhs)
    return std::nullopt;
  switch (op.getFn()) {
  case BinaryFn::Lt:
  case BinaryFn::Le:
  case BinaryFn::Eq:
  case BinaryFn::Ne:
    return PositionTile{true, 1};
  case BinaryFn::And:
  case BinaryFn::Or:
    if (lhs->isTruth && rhs->isTruth)
      return PositionTile{true, 1};
    return std::nullopt;
  case BinaryFn::Add:
  case BinaryFn::Sub:
    return PositionTile{false, lhs->most + rhs->most};
  case BinaryFn::Max:
  case BinaryFn::Min:
    return PositionTile{false, std::max(lhs->most, rhs->most)};
  default:
    return std::nullopt;
  }
}

static std::optional<PositionTile> getUnchecked(Operation *op) {
  if (Value operand = getRearranged(op))
    return getPositionTile(operand);
  return TypeSwitch<Operation *, std::optional<PositionTile>>(op)
      .Case<block::ConstantOp>([](auto constant) -> std::optional<PositionTile> {
        double value = constant.getValue().convertToDouble();
        if (!(std::abs(value) <= double(exactNumbers)) || value != std::floor(value))
          return std::nullopt;
        return PositionTile{false, int64_t(std::abs(value))};
      })
      .Case<block::IotaOp>([](auto iota) { return PositionTile{false, int64_t(iota.getExtent())}; })
      .Case<block::CastOp>([](auto cast) -> std::optional<PositionTile> {
        auto tile = getPositionTile(cast.getInput());
        bool isExact = getTile(cast.getResult()).getElementType().isF32();
        return tile && (tile->isTruth || isExact) ? tile : std::nullopt;
      })
      .Case<block::UnaryOp>([](auto unary) -> std::optional<PositionTile> {
        auto tile = getPositionTile(unary.getInput());
        bool isNot = unary.getFn() == UnaryFn::Not && tile && tile->isTruth;
        return isNot || (tile && unary.getFn() == UnaryFn::Neg) ? tile : std::nullopt;
      })
      .Case<block::BinaryOp>([](auto binary) { return getOfBinary(binary); })
      .Default([](Operation *) { return std::nullopt; });
}

std::optional<PositionTile> mirage::getPositionTile(Value value) {
  Operation *op = value.getDefiningOp();
  std::optional<PositionTile> tile = op ? getUnchecked(op) : std::nullopt;
  if (tile && tile->isTruth)
    if (auto unary = dyn_cast<block::UnaryOp>(op); unary && unary.getFn() == UnaryFn::Neg)
      return std::nullopt; // of numbers only
  return tile && tile->most <= exactNumbers ? tile : std::nullopt;
}

Value mirage::getBiasedTruth(Value value) {
  Operation *op = value.getDefiningOp();
  while (op && (getRearranged(op) || isa<block::CastOp>(op)))
    op = op->getOperand(0).getDefiningOp();
  auto bias = dyn_cast_or_null<block::UnaryOp>(op);
  if (!bias || bias.getFn() != UnaryFn::Bias)
    return {};
  auto tile = getPositionTile(bias.getInput());
  return tile && tile->isTruth ? bias.getInput() : Value();
}

//===----------------------------------------------------------------------===//
// Guards
//===----------------------------------------------------------------------===//

/// Whether there is a position in what computes the value.
static bool hasPositions(Value value) {
  Operation *op = value.getDefiningOp();
  return op && (isa<block::IotaOp>(op) || llvm::any_of(op->getOperands(), hasPositions));
}

static bool isPositionTruth(Value value) {
  auto tile = getPositionTile(value);
  return tile && tile->isTruth && hasPositions(value);
}

/// The operand that `op` hands on where the other one, a mask, does nothing.
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
  // What nothing else needs than masks moves along; those that use it come after it.
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

//===----------------------------------------------------------------------===//
// Where a mask does nothing
//===----------------------------------------------------------------------===//

namespace mirage {
/// Bounds of tiles as numbers of this block and step.
class PositionBounds {
public:
  explicit PositionBounds(TileEmitter &tiles)
      : tiles(tiles), builder(tiles.builder), loc(tiles.loc) {}

  /// No element is smaller, none is greater; both are elements, or further out.
  struct Numbers {
    Value least, most;
  };
  /// Whether all elements are true, and whether none is; neither need be said of
  /// a tile of which it holds.
  struct Truth {
    Value all, none;
  };

  Numbers getNumbers(Value value) {
    if (getPositionTile(value)->isTruth) {
      Truth truth = getTruth(value);
      return {select(truth.all, 1, 0), select(truth.none, 0, 1)};
    }
    Operation *op = value.getDefiningOp();
    if (auto constant = dyn_cast<block::ConstantOp>(op)) {
      Value number = tiles.index(int64_t(constant.getValue().convertToDouble()));
      return {number, number};
    }
    if (auto iota = dyn_cast<block::IotaOp>(op))
      return getOfIota(iota);
    if (auto unary = dyn_cast<block::UnaryOp>(op)) { // neg
      Numbers of = getNumbers(unary.getInput());
      Value zero = tiles.index(0);
      return {arith::SubIOp::create(builder, loc, zero, of.most),
              arith::SubIOp::create(builder, loc, zero, of.least)};
    }
    auto binary = dyn_cast<block::BinaryOp>(op);
    return binary ? getOfBinary(binary) : getNumbers(op->getOperand(0));
  }

  Truth getTruth(Value value) {
    Operation *op = value.getDefiningOp();
    auto binary = dyn_cast<block::BinaryOp>(op);
    if (auto unary = dyn_cast<block::UnaryOp>(op)) { // not
      Truth of = getTruth(unary.getInput());
      return {of.none, of.all};
    }
    if (!binary)
      return getTruth(op->getOperand(0));
    if (binary.getFn() == BinaryFn::And || binary.getFn() == BinaryFn::Or) {
      Truth a = getTruth(binary.getLhs()), b = getTruth(binary.getRhs());
      if (binary.getFn() == BinaryFn::And)
        return {both(a.all, b.all), either(a.none, b.none)};
      return {either(a.all, b.all), both(a.none, b.none)};
    }
    return compare(binary.getFn(), getNumbers(binary.getLhs()), getNumbers(binary.getRhs()));
  }

private:
  using Predicate = arith::CmpIPredicate;

  Numbers getOfIota(block::IotaOp op) {
    int64_t parts = 1, size = getTile(op.getResult()).getShape()[op.getDim()];
    int64_t extent = op.getExtent();
    Value first = tiles.getPart(op.getAxes(), parts);
    if (parts > 1)
      first = arith::MulIOp::create(builder, loc, first, tiles.index(size));
    Value last = arith::AddIOp::create(builder, loc, first, tiles.index(size - 1));
    if (parts * size == extent)
      return {first, last};
    // Beyond the end there are zeros.
    Value end = tiles.index(extent);
    Value inside = arith::CmpIOp::create(builder, loc, Predicate::slt, last, end);
    return {arith::SelectOp::create(builder, loc, inside, first, tiles.index(0)),
            arith::MinSIOp::create(builder, loc, last, tiles.index(extent - 1))};
  }

  Numbers getOfBinary(block::BinaryOp op) {
    Numbers a = getNumbers(op.getLhs()), b = getNumbers(op.getRhs());
    switch (op.getFn()) {
    case BinaryFn::Add:
      return {arith::AddIOp::create(builder, loc, a.least, b.least),
              arith::AddIOp::create(builder, loc, a.most, b.most)};
    case BinaryFn::Sub:
      return {arith::SubIOp::create(builder, loc, a.least, b.most),
              arith::SubIOp::create(builder, loc, a.most, b.least)};
    case BinaryFn::Max:
      return {arith::MaxSIOp::create(builder, loc, a.least, b.least),
              arith::MaxSIOp::create(builder, loc, a.most, b.most)};
    default:
      return {arith::MinSIOp::create(builder, loc, a.least, b.least),
              arith::MinSIOp::create(builder, loc, a.most, b.most)};
    }
  }

  Truth compare(BinaryFn fn, Numbers a, Numbers b) {
    auto is = [&](Predicate predicate, Value x, Value y) -> Value {
      return arith::CmpIOp::create(builder, loc, predicate, x, y);
    };
    if (fn == BinaryFn::Lt)
      return {is(Predicate::slt, a.most, b.least), is(Predicate::sge, a.least, b.most)};
    if (fn == BinaryFn::Le)
      return {is(Predicate::sle, a.most, b.least), is(Predicate::sgt, a.least, b.most)};
    // All of the one below all of the other, or both the same number.
    Value apart = either(is(Predicate::slt, a.most, b.least), is(Predicate::slt, b.most, a.least));
    Value same = both(is(Predicate::sle, a.most, b.least), is(Predicate::sle, b.most, a.least));
    return fn == BinaryFn::Eq ? Truth{same, apart} : Truth{apart, same};
  }

  Value both(Value a, Value b) { return arith::AndIOp::create(builder, loc, a, b); }
  Value either(Value a, Value b) { return arith::OrIOp::create(builder, loc, a, b); }
  Value select(Value condition, int64_t a, int64_t b) {
    return arith::SelectOp::create(builder, loc, condition, tiles.index(a), tiles.index(b));
  }

  TileEmitter &tiles;
  OpBuilder &builder;
  Location loc;
};
} // namespace mirage

Value TileEmitter::emitMaskIsIdle(Operation *op, const MaskGuard &guard) {
  if (guard.mask) {
    Value mask = op->getOperand(*guard.mask), biased = getBiasedTruth(mask);
    return PositionBounds(*this).getTruth(biased ? biased : mask).all;
  }
  auto mask = cast<block::MaskOp>(op);
  int64_t parts = 1, size = getTile(mask.getResult()).getShape()[mask.getDim()];
  Value end = arith::AddIOp::create(builder, loc, getPart(mask.getAxes(), parts), index(1));
  end = arith::MulIOp::create(builder, loc, end, index(size));
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle, end,
                               index(mask.getExtent()));
}

void TileEmitter::emitUnguarded(Operation *op, const MaskGuard &guard) {
  for (Operation *made : guard.sunk)
    emitOp(made);
  emitOp(op);
}

/// The op, unless its mask does nothing at this step: then the operand that is kept. The same of
/// the op before it, if that has a mask as well.
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
