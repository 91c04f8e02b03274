//===- LazyMaxima.cpp - running maxima that are followed late -------------===//

#include "LazyMaxima.h"
#include "TileEmitter.h"

#include <limits>

using namespace mlir;
using namespace mirage;
using block::getFragment;
using block::getTile;
using thread::FragmentType;

//===----------------------------------------------------------------------===//
// Where another number may be used
//===----------------------------------------------------------------------===//

namespace {
/// How a value of the loop's body is made of exponentials that the maximum is
/// subtracted in.
class Degrees {
public:
  /// Of a value: of none; the maximum; a difference with it on the right; one of its
  /// exponentials; a sum of products in which one exponential is a factor; anything
  /// else.
  enum Kind { Free, Maximum, Difference, Exponential, Linear, Other };

  static bool isLinear(Kind kind) { return kind == Exponential || kind == Linear; }

  explicit Degrees(Value maximum) : maximum(maximum) {}

  Kind get(Value value) const {
    if (value == maximum)
      return Maximum;
    auto found = kinds.find(value);
    return found == kinds.end() ? Free : found->second;
  }

  void visit(Operation *op) {
    Kind kind = compute(op);
    for (Value result : op->getResults())
      if (kind != Free && result != maximum)
        kinds[result] = kind;
  }

private:
  Kind compute(Operation *op) const {
    if (llvm::all_of(op->getOperands(), [&](Value x) { return get(x) == Free; }))
      return Free;
    Kind first = get(op->getOperand(0));
    if (isa<block::BroadcastOp, block::ReshapeOp, block::TransposeOp, block::ConvertLayoutOp>(op))
      return first;
    if (isa<block::CastOp>(op)) {
      // Exponentials are greater by `lazySlack` at most, which f16 holds of them, but
      // not of products that are near its end.
      bool isF16 = getTile(op->getResult(0)).getElementType().isF16();
      return first == Exponential || (first == Linear && !isF16) ? first : Other;
    }
    if (auto reduce = dyn_cast<block::ReduceOp>(op))
      return isLinear(first) && reduce.getFn() == ReduceFn::Sum ? Linear : Other;
    if (auto mask = dyn_cast<block::MaskOp>(op))
      return isLinear(first) && mask.getFill().isZero() ? first : Other;
    if (auto unary = dyn_cast<block::UnaryOp>(op)) {
      if (first == Difference)
        return unary.getFn() == UnaryFn::Exp ? Exponential : Other;
      return isLinear(first) && unary.getFn() == UnaryFn::Neg ? first : Other;
    }
    if (isa<block::MatmulOp>(op))
      return multiply(first, get(op->getOperand(1)));
    if (auto binary = dyn_cast<block::BinaryOp>(op))
      return combine(binary.getFn(), first, get(binary.getRhs()));
    return Other;
  }

  static Kind multiply(Kind a, Kind b) {
    return (isLinear(a) && b == Free) || (a == Free && isLinear(b)) ? Linear : Other;
  }

  static Kind combine(BinaryFn fn, Kind a, Kind b) {
    switch (fn) {
    case BinaryFn::Sub:
      if (a == Free && b == Maximum)
        return Difference;
      [[fallthrough]];
    case BinaryFn::Add:
      return isLinear(a) && isLinear(b) ? Linear : Other;
    case BinaryFn::Mul:
      return multiply(a, b);
    case BinaryFn::Div:
      return isLinear(a) && b == Free ? Linear : Other;
    case BinaryFn::Keep:
      return a == Free && isLinear(b) ? b : Other;
    default:
      return Other;
    }
  }

  Value maximum;
  DenseMap<Value, Kind> kinds;
};
} // namespace

bool mirage::isLazy(block::RunningMaxOp running) {
  constexpr int64_t fewestRegisters = 16; // of sums: else there is little to leave out
  auto loop = cast<block::LoopOp>(running->getParentOp());
  Block &body = loop.getBody().front();
  Degrees degrees(running.getResult());
  for (Operation &op : body.without_terminator()) {
    if (op.getNumRegions() > 0)
      return false;
    degrees.visit(&op);
    if (op.getNumResults() == 1 && degrees.get(op.getResult(0)) == Degrees::Other)
      return false;
  }
  auto accumulate = cast<block::AccumulateOp>(body.getTerminator());
  int64_t registers = 0;
  for (auto [index, value] : llvm::enumerate(accumulate.getValues())) {
    Degrees::Kind kind = degrees.get(value);
    bool isRescaled = accumulate.getRescale(index) == running.getResult();
    if (isRescaled) {
      FragmentType type = getFragment(loop.getResult(index));
      if (!Degrees::isLinear(kind) || accumulate.getFn(index) != block::AccumulateFn::Sum || !type)
        return false;
      registers = std::max(registers, type.getNumRegisters());
    } else if (kind != Degrees::Free && (kind != Degrees::Maximum || value != running.getResult() ||
                                         accumulate.getFn(index) != block::AccumulateFn::Last)) {
      return false;
    }
  }
  return registers >= fewestRegisters;
}

//===----------------------------------------------------------------------===//
// Maxima that a loop carries
//===----------------------------------------------------------------------===//

void TileEmitter::addInitialMaxima(ArrayRef<block::RunningMaxOp> maxima,
                                   SmallVectorImpl<Value> &values) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (block::RunningMaxOp running : maxima)
    values.append(isLazy(running) ? 2 : 1, constant(typeOf(running.getResult()), -infinity));
}

ValueRange TileEmitter::setMaxima(ArrayRef<block::RunningMaxOp> maxima, ValueRange values) {
  for (block::RunningMaxOp running : maxima) {
    previousMax[running.getResult()] = values.front();
    values = values.drop_front();
    if (!isLazy(running))
      continue;
    trueMax[running.getResult()] = values.front();
    values = values.drop_front();
  }
  return values;
}

void TileEmitter::addMaxima(ArrayRef<block::RunningMaxOp> maxima, SmallVectorImpl<Value> &values) {
  for (block::RunningMaxOp running : maxima) {
    values.push_back(get(running.getResult()));
    if (isLazy(running))
      values.push_back(trueMax.lookup(running.getResult()));
  }
}

void TileEmitter::emitRunningMax(block::RunningMaxOp op) {
  Value result = op.getResult(), input = castTo(get(op.getInput()), builder.getF32Type());
  Value previous = previousMax.lookup(result);
  if (!isLazy(op)) {
    fragments[result] = binary(BinaryFn::Max, previous, input);
    return;
  }
  auto type = cast<FragmentType>(previous.getType());
  Value most = trueMax[result] = binary(BinaryFn::Max, trueMax.lookup(result), input);
  Value reach = binary(BinaryFn::Add, previous, constant(type, lazySlack));
  Value moves = binary(BinaryFn::Lt, reach, most);
  Value stays = thread::UnaryOp::create(builder, loc, type, UnaryFn::Not, moves);
  Value now = binary(BinaryFn::Keep, moves, most);
  fragments[result] = binary(BinaryFn::Add, now, binary(BinaryFn::Keep, stays, previous));
}

/// After the loop: its sums are those of the maximum.
void TileEmitter::settleMaxima(block::LoopOp op) {
  auto accumulate = cast<block::AccumulateOp>(op.getBody().front().getTerminator());
  for (auto [index, result] : llvm::enumerate(op.getResults())) {
    Value rescale = accumulate.getRescale(index);
    if (!rescale || !trueMax.count(rescale))
      continue;
    FragmentType type = typeOf(result);
    Value factor = spreadFactor(emitFactor(previousMax.lookup(rescale), trueMax.lookup(rescale)),
                                getTile(rescale), getTile(result), type.withPartial(false));
    fragments[result] =
        thread::RescaleOp::create(builder, loc, type, fragments.lookup(result), factor);
  }
}
