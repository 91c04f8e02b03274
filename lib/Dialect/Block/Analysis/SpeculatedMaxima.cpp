//===- SpeculatedMaxima.cpp - exponentials before their maximum -----------===//

#include "mirage/Dialect/Block/Analysis/SpeculatedMaxima.h"

#include "mirage/Dialect/Block/Analysis/HeldTile.h"
#include "mirage/Dialect/Block/Analysis/LazyMaxima.h"
#include "mirage/Dialect/Block/Analysis/ProductPhases.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mirage;
using namespace mirage::block;

//===----------------------------------------------------------------------===//
// Values after the loop
// ===----------------------------------------------------------------------===//

namespace {
/// The powers of exp(m - r) by which values after a loop are multiplied.
class ScaleDegrees {
public:
  explicit ScaleDegrees(RunningMaxOp running) : running(running) {}

  /// Whether nothing that the block stores depends on r.
  bool areZeroAtTheEnd() {
    auto loop = cast<LoopOp>(running->getParentOp());
    auto accumulate = cast<AccumulateOp>(running->getBlock()->getTerminator());
    for (auto [index, result] : llvm::enumerate(loop.getResults())) {
      if (accumulate.getRescale(index) == running.getResult())
        degrees[result] = 1;
      else if (accumulate.getValues()[index] == running.getResult() && !result.use_empty())
        return false;
    }
    for (Operation *op = loop->getNextNode(); op; op = op->getNextNode()) {
      std::optional<int64_t> degree = compute(op);
      if (!degree || (*degree != 0 && (op->getNumResults() != 1 || std::abs(*degree) > 1)))
        return false;
      if (*degree != 0)
        degrees[op->getResult(0)] = *degree;
    }
    return true;
  }

private:
  int64_t get(Value value) const { return degrees.lookup(value); }

  bool isFree(Operation *op) const {
    bool isFree = true;
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        isFree &= get(operand) == 0;
    });
    return isFree;
  }

  std::optional<int64_t> compute(Operation *op) const {
    using Degree = std::optional<int64_t>;
    if (isFree(op))
      return 0;
    int64_t first = get(op->getOperand(0));
    return TypeSwitch<Operation *, Degree>(op)
        .Case<BroadcastOp, ReshapeOp, TransposeOp, ConvertLayoutOp>([&](auto) { return first; })
        .Case<CastOp>([&](CastOp cast) -> Degree {
          if (!getTile(cast.getResult()).getElementType().isF32())
            return std::nullopt;
          return first;
        })
        .Case<ReduceOp>([&](ReduceOp reduce) -> Degree {
          if (reduce.getFn() != ReduceFn::Sum)
            return std::nullopt;
          return first;
        })
        .Case<UnaryOp>([&](UnaryOp unary) -> Degree {
          if (unary.getFn() == UnaryFn::Neg)
            return first;
          if (unary.getFn() == UnaryFn::Reciprocal)
            return -first;
          return std::nullopt;
        })
        .Case<BinaryOp>([&](BinaryOp binary) -> Degree {
          int64_t second = get(binary.getRhs());
          switch (binary.getFn()) {
          case BinaryFn::Mul:
            return first + second;
          case BinaryFn::Div:
            return first - second;
          case BinaryFn::Add:
          case BinaryFn::Sub:
            return first == second ? Degree(first) : std::nullopt;
          default:
            return std::nullopt;
          }
        })
        .Default([](Operation *) { return std::nullopt; });
  }

  RunningMaxOp running;
  DenseMap<Value, int64_t> degrees;
};
} // namespace

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

/// The sums over rows of all exponentials, after masks if there are any.
static Value getRowSums(Value exponentials) {
  while (exponentials.hasOneUse()) {
    auto mask = dyn_cast<MaskOp>(*exponentials.getUsers().begin());
    if (!mask)
      break;
    exponentials = mask.getResult();
  }
  for (Operation *user : exponentials.getUsers())
    if (auto reduce = dyn_cast<ReduceOp>(user); reduce && reduce.getFn() == ReduceFn::Sum)
      return reduce.getResult();
  return {};
}

/// The values from which only the maximum is computed.
static SmallVector<Operation *> getMaximum(RunningMaxOp running) {
  llvm::SetVector<Operation *> made;
  made.insert(running);
  for (Operation *op = running->getPrevNode(); op; op = op->getPrevNode())
    if (op->getNumResults() == 1 && !isa<MatmulOp, LoadOp, GatherOp>(op) && !op->use_empty() &&
        llvm::all_of(op->getUsers(), [&](Operation *user) { return made.contains(user); }))
      made.insert(op);
  return SmallVector<Operation *>(llvm::reverse(made));
}

bool mirage::block::needsOtherWarps(Operation *op) {
  if (isa<ConvertLayoutOp>(op))
    return true;
  auto reduce = dyn_cast<ReduceOp>(op);
  if (!reduce)
    return false;
  thread::FragmentType from = getFragment(reduce.getInput()), to = getFragment(reduce.getResult());
  return !from || !to || to.getPartial() || llvm::any_of(reduce.getDims(), [&](int64_t dim) {
    return from.getLinearLayout().warpsSpan(dim);
  });
}

std::optional<SpeculatedStep> mirage::block::getSpeculatedStep(LoopOp loop) {
  Block &body = loop.getBody().front();
  SmallVector<RunningMaxOp> running(body.getOps<RunningMaxOp>());
  if (running.size() != 1 || !isLazy(running[0]))
    return std::nullopt;
  SpeculatedStep step{running[0], getMaximum(running[0]), {}, {}, {}, false};
  step.needsMaximum = !ScaleDegrees(running[0]).areZeroAtTheEnd();
  ExponentialDegrees degrees(step.running);
  ProductPhases phases(loop);
  auto isFirst = [&](Operation *op) { return phases.getPhase(op) == 1; };
  Value exponentials;
  for (Operation &op : body.without_terminator()) {
    if (op.getNumResults() != 1 || &op == step.running.getOperation())
      continue;
    ExponentialDegrees::Kind kind = degrees.get(op.getResult(0));
    if (kind == ExponentialDegrees::Difference) {
      if (step.scores || op.getNumOperands() < 2)
        return std::nullopt;
      step.scores = op.getOperand(0);
    }
    if (kind == ExponentialDegrees::Exponential && isa<UnaryOp>(op)) {
      if (exponentials)
        return std::nullopt;
      exponentials = op.getResult(0);
    }
    if (kind != ExponentialDegrees::Free && isFirst(&op))
      step.uses.push_back(&op);
  }
  if (!exponentials || !step.scores)
    return std::nullopt;
  step.sums = getRowSums(exponentials);
  bool isThere = step.sums && getFragment(step.sums) &&
                 llvm::is_contained(step.uses, step.sums.getDefiningOp()) &&
                 llvm::all_of(step.maximum, isFirst) &&
                 // Each warp decides separately whether it repeats the step.
                 llvm::none_of(step.maximum, needsOtherWarps) &&
                 llvm::none_of(step.uses, needsOtherWarps);
  return isThere ? std::optional(step) : std::nullopt;
}
