//===- LazyMaxima.cpp - where a maximum may be followed late --------------===//

#include "mirage/Dialect/Block/Analysis/LazyMaxima.h"

#include "mirage/Dialect/Block/Analysis/HeldTile.h"

using namespace mlir;
using namespace mirage;
using namespace mirage::block;
using thread::FragmentType;

using Kind = ExponentialDegrees::Kind;

static Kind multiply(Kind a, Kind b) {
  return (ExponentialDegrees::isLinear(a) && b == Kind::Free) ||
                 (a == Kind::Free && ExponentialDegrees::isLinear(b))
             ? Kind::Linear
             : Kind::Other;
}

static Kind combine(BinaryFn fn, Kind a, Kind b) {
  switch (fn) {
  case BinaryFn::Sub:
    if (a == Kind::Free && b == Kind::Maximum)
      return Kind::Difference;
    [[fallthrough]];
  case BinaryFn::Add:
    return ExponentialDegrees::isLinear(a) && ExponentialDegrees::isLinear(b) ? Kind::Linear
                                                                              : Kind::Other;
  case BinaryFn::Mul:
    return multiply(a, b);
  case BinaryFn::Div:
    return ExponentialDegrees::isLinear(a) && b == Kind::Free ? Kind::Linear : Kind::Other;
  case BinaryFn::Keep:
    return a == Kind::Free && ExponentialDegrees::isLinear(b) ? b : Kind::Other;
  default:
    return Kind::Other;
  }
}

ExponentialDegrees::ExponentialDegrees(RunningMaxOp running) : maximum(running.getResult()) {
  for (Operation &op : running->getBlock()->without_terminator()) {
    Kind kind = op.getNumRegions() > 0 ? Other : compute(&op);
    for (Value result : op.getResults())
      if (kind != Free && result != maximum)
        kinds[result] = kind;
  }
}

Kind ExponentialDegrees::get(Value value) const {
  if (value == maximum)
    return Maximum;
  auto found = kinds.find(value);
  return found == kinds.end() ? Free : found->second;
}

Kind ExponentialDegrees::compute(Operation *op) const {
  if (llvm::all_of(op->getOperands(), [&](Value x) { return get(x) == Free; }))
    return Free;
  Kind first = get(op->getOperand(0));
  if (isa<BroadcastOp, ReshapeOp, TransposeOp, ConvertLayoutOp>(op))
    return first;
  if (isa<CastOp>(op)) {
    // Exponentials are greater by at most `lazySlack`, which f16 represents, but not products that
    // are near the end of its range.
    bool isF16 = getTile(op->getResult(0)).getElementType().isF16();
    return first == Exponential || (first == Linear && !isF16) ? first : Other;
  }
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return isLinear(first) && reduce.getFn() == ReduceFn::Sum ? Linear : Other;
  if (auto mask = dyn_cast<MaskOp>(op))
    return isLinear(first) && mask.getFill().isZero() ? first : Other;
  if (auto unary = dyn_cast<UnaryOp>(op)) {
    if (first == Difference)
      return unary.getFn() == UnaryFn::Exp ? Exponential : Other;
    return isLinear(first) && unary.getFn() == UnaryFn::Neg ? first : Other;
  }
  if (isa<MatmulOp>(op))
    return multiply(first, get(op->getOperand(1)));
  if (auto binary = dyn_cast<BinaryOp>(op))
    return combine(binary.getFn(), first, get(binary.getRhs()));
  return Other;
}

bool mirage::block::isLazy(RunningMaxOp running) {
  constexpr int64_t fewestRegisters = 16; // of sums: otherwise there is little to leave out
  auto loop = cast<LoopOp>(running->getParentOp());
  Block &body = loop.getBody().front();
  ExponentialDegrees degrees(running);
  for (Operation &op : body.without_terminator())
    if (op.getNumRegions() > 0 ||
        (op.getNumResults() == 1 && degrees.get(op.getResult(0)) == Kind::Other))
      return false;
  auto accumulate = cast<AccumulateOp>(body.getTerminator());
  int64_t registers = 0;
  for (auto [index, value] : llvm::enumerate(accumulate.getValues())) {
    Kind kind = degrees.get(value);
    bool isRescaled = accumulate.getRescale(index) == running.getResult();
    if (isRescaled) {
      FragmentType type = getFragment(loop.getResult(index));
      if (!ExponentialDegrees::isLinear(kind) || accumulate.getFn(index) != AccumulateFn::Sum ||
          !type)
        return false;
      registers = std::max(registers, type.getNumRegisters());
    } else if (kind != Kind::Free && (kind != Kind::Maximum || value != running.getResult() ||
                                      accumulate.getFn(index) != AccumulateFn::Last)) {
      return false;
    }
  }
  return registers >= fewestRegisters;
}
