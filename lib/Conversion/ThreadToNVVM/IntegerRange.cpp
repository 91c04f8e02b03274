//===- IntegerRange.cpp - bounds of scalars in registers ------------------===//

#include "IntegerRange.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mirage::thread;

/// The most ops from a value to what it is made of.
constexpr int kDeepest = 12;
/// Bounds beyond this are not kept, so that sums of them do not wrap around here.
constexpr int64_t kFurthest = int64_t(1) << 40;
constexpr int64_t kMostThreads = 1024;

using Bounds = std::optional<IntegerRange>;

/// All numbers of an integer type; nullopt for those of more than 32 bits.
static Bounds getTypeRange(Type type) {
  if (!type.isInteger() || type.getIntOrFloatBitWidth() > 32)
    return std::nullopt;
  int64_t half = int64_t(1) << (type.getIntOrFloatBitWidth() - 1);
  return IntegerRange{-half, half - 1};
}

/// A range that a type has room for: otherwise results wrap around, and may be any.
static Bounds within(Type type, int64_t least, int64_t greatest) {
  Bounds all = getTypeRange(type);
  if (all && (least < all->least || greatest > all->greatest))
    return all;
  if (least < -kFurthest || greatest > kFurthest)
    return std::nullopt;
  return IntegerRange{least, greatest};
}

static Bounds getRange(Value value, int depth);

/// The range of a function of two values that is monotone in both, up or down.
template <typename FunctionT>
static Bounds getRangeOf(Operation *op, int depth, FunctionT function) {
  Bounds a = getRange(op->getOperand(0), depth), b = getRange(op->getOperand(1), depth);
  if (!a || !b)
    return std::nullopt;
  std::array<int64_t, 4> ends = {function(a->least, b->least), function(a->least, b->greatest),
                                 function(a->greatest, b->least),
                                 function(a->greatest, b->greatest)};
  return within(op->getResult(0).getType(), *llvm::min_element(ends), *llvm::max_element(ends));
}

/// The range of bits that remain of a value that is not negative.
static Bounds getMaskedRange(arith::AndIOp op, int depth) {
  for (Value operand : {op.getRhs(), op.getLhs()})
    if (Bounds mask = getRange(operand, depth); mask && mask->least >= 0)
      return IntegerRange{0, mask->greatest};
  return std::nullopt;
}

/// A product; a number that is too far away if it does not fit in 64 bits.
static int64_t times(int64_t a, int64_t b) {
  int64_t product;
  return llvm::MulOverflow(a, b, product) ? kFurthest + 1 : product;
}

static Bounds getRangeOfOp(Operation *op, int depth) {
  return llvm::TypeSwitch<Operation *, Bounds>(op)
      .Case<arith::ExtSIOp>([&](auto ext) { return getRange(ext.getIn(), depth); })
      .Case<arith::ExtUIOp>([&](auto ext) -> Bounds {
        Bounds from = getRange(ext.getIn(), depth);
        if (from && from->least >= 0)
          return from;
        unsigned bits = ext.getIn().getType().getIntOrFloatBitWidth();
        return bits > 32 ? Bounds() : IntegerRange{0, (int64_t(1) << bits) - 1};
      })
      .Case<arith::AddIOp>(
          [&](auto) { return getRangeOf(op, depth, [](int64_t a, int64_t b) { return a + b; }); })
      .Case<arith::SubIOp>(
          [&](auto) { return getRangeOf(op, depth, [](int64_t a, int64_t b) { return a - b; }); })
      .Case<arith::MulIOp>([&](auto) { return getRangeOf(op, depth, times); })
      .Case<arith::ShLIOp>([&](auto) {
        return getRangeOf(op, depth, [](int64_t a, int64_t bits) {
          return bits < 0 || bits > 31 ? kFurthest + 1 : times(a, int64_t(1) << bits);
        });
      })
      .Case<arith::MaxSIOp>([&](auto) {
        return getRangeOf(op, depth, [](int64_t a, int64_t b) { return std::max(a, b); });
      })
      .Case<arith::MinSIOp>([&](auto) {
        return getRangeOf(op, depth, [](int64_t a, int64_t b) { return std::min(a, b); });
      })
      .Case<arith::ShRUIOp>([&](auto shift) -> Bounds {
        Bounds from = getRange(shift.getLhs(), depth);
        return from && from->least >= 0 ? IntegerRange{0, from->greatest} : Bounds();
      })
      .Case<arith::AndIOp>([&](auto mask) { return getMaskedRange(mask, depth); })
      .Case<arith::SelectOp>([&](auto select) -> Bounds {
        Bounds a = getRange(select.getTrueValue(), depth),
               b = getRange(select.getFalseValue(), depth);
        if (!a || !b)
          return std::nullopt;
        return IntegerRange{std::min(a->least, b->least), std::max(a->greatest, b->greatest)};
      })
      .Case<NVVM::ThreadIdXOp>([](auto) { return IntegerRange{0, kMostThreads - 1}; })
      .Default([](Operation *) { return std::nullopt; });
}

static Bounds getRange(Value value, int depth) {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)) && constant.isSignedIntN(40))
    return IntegerRange{constant.getSExtValue(), constant.getSExtValue()};
  Operation *op = value.getDefiningOp();
  Bounds found = op && depth > 0 ? getRangeOfOp(op, depth - 1) : std::nullopt;
  return found ? found : getTypeRange(value.getType());
}

std::optional<IntegerRange> mirage::thread::getIntegerRange(Value value) {
  return getRange(value, kDeepest);
}

bool mirage::thread::fitInWords(ArrayRef<Value> values) {
  return llvm::all_of(values, [](Value value) {
    Bounds range = getIntegerRange(value);
    return range && llvm::isInt<32>(range->least) && llvm::isInt<32>(range->greatest);
  });
}
