//===- PositionTiles.cpp - tiles that positions decide --------------------===//

#include "PositionTiles.h"

#include "mirage/Dialect/Block/Analysis/HeldTile.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace mirage;
using block::getTile;

/// Whole numbers up to here are exact in f32.
static constexpr int64_t exactNumbers = int64_t(1) << 24;

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
