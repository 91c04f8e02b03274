//===- IdleMasks.cpp - where a mask does nothing --------------------------===//

#include "MaskGuards.h"
#include "PositionTiles.h"
#include "TileEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mirage;
using block::getTile;

namespace mirage {
/// Bounds of tiles as numbers of this block and step.
class PositionBounds {
public:
  explicit PositionBounds(TileEmitter &tiles)
      : tiles(tiles), builder(tiles.builder), loc(tiles.loc) {}

  /// Bounds: no element is smaller than the first or greater than the second.
  struct Numbers {
    Value least, most;
  };
  /// Whether all elements are certainly true, and whether all are certainly false.
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
    // Elements beyond the end are zeros.
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
    // All elements of one are below all of the other, or both are the same
    // number.
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
