//===- CoarseFunctions.cpp - of whose results 16 bits count ---------------===//
//
// GELU is computed by a polynomial of half the terms if all uses of the result round it to 16 bits:
// in the epilogue of a product, the tensor cores are idle during its instructions.
//
// In the softmax of an attention, exponentials bound the time as much as products do, so
// exp(s - m) is written as 2^(s * log2(e) - m * log2(e)): one fused multiply-add a score, since the
// right side is the same for a row. The rounding of that side, |m| * 2^-24, scales all exponentials
// of the row in the same way, and with them the sum by which they are divided. The only loss is
// that the exponential of 0 is not exactly 1, which costs as much as rounding to 16 bits. That adds
// no error
//
//  * where the exponentials are rounded to 16 bits, as factors of a product, and
//  * where the scores are results of a product themselves: their own roundings, |s| * 2^-24 for
//  each
//    term, are as large.
//
// Scores that are loaded are exact: if one of a row is far above the others, the row gets that
// one's value without an error, also from a softmax in 16 bits.
//
// Neither form is right for huge scores: the number that a program adds to masked scores (the
// lowest number of a type, -1e9) makes the rounding of m * log2(e) overflow the exponential of a
// row that is masked completely. Programs announce such scores by the lowest number that they allow
// for a maximum; then the difference, which is exact, is computed before it is multiplied.
//
//===----------------------------------------------------------------------===//

#include "Patterns.h"
#include "ScalarFunctions.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/DenseSet.h"

#include <limits>

using namespace mlir;
using namespace mirage;
using namespace mirage::thread;

namespace {
bool isRounded(Value value);

/// Whether a use rounds an f32 to 16 bits, for a factor of a product or for a store.
bool rounds(OpOperand &use) {
  Operation *user = use.getOwner();
  if (auto cast = dyn_cast<CastOp>(user))
    return cast.getType().getElementType().getIntOrFloatBitWidth() == 16;
  if (isa<WgmmaWaitOp>(user)) // hands its operands on
    return isRounded(user->getResult(use.getOperandNumber()));
  if (auto branch = dyn_cast<scf::IfOp>(user->getParentOp()); branch && isa<scf::YieldOp>(user))
    return isRounded(branch.getResult(use.getOperandNumber()));
  return isa<ConvertLayoutOp, TransposeOp>(user) && isRounded(user->getResult(0));
}

/// Whether some use rounds a value. Its other uses (the sum of a softmax) then contribute to
/// results that are no more exact.
bool isRounded(Value value) { return llvm::any_of(value.getUses(), rounds); }

/// Whether a value has no other uses.
bool isOnlyRounded(Value value) {
  return llvm::all_of(value.getUses(), [](OpOperand &use) {
    Operation *user = use.getOwner();
    return isa<ConvertLayoutOp, TransposeOp>(user) ? isOnlyRounded(user->getResult(0))
                                                   : rounds(use);
  });
}

/// The fragments from which a value is computed, in this step of a loop or the previous one, or in
/// either branch.
SmallVector<Value> sourcesOf(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
    if (!loop || argument == loop.getInductionVar())
      return {};
    return {loop.getTiedLoopInit(argument)->get(), loop.getTiedLoopYieldedValue(argument)->get()};
  }
  auto result = cast<OpResult>(value);
  if (isa<WgmmaWaitOp>(result.getOwner())) // hands its operands on
    return {result.getOwner()->getOperand(result.getResultNumber())};
  SmallVector<Value> sources;
  for (Region &region : result.getOwner()->getRegions())
    if (!region.empty() && isa<scf::YieldOp>(region.back().getTerminator()))
      sources.push_back(region.back().getTerminator()->getOperand(result.getResultNumber()));
  llvm::copy_if(result.getOwner()->getOperands(), std::back_inserter(sources),
                [](Value operand) { return isa<FragmentType>(operand.getType()); });
  return sources;
}

bool isProduct(Value value) { return isa_and_nonnull<MmaOp, WgmmaOp>(value.getDefiningOp()); }

/// Whether something from which a value is computed, within the kernel, satisfies a condition: up
/// to products, whose factors do not count.
bool comesFrom(Value value, llvm::function_ref<bool(Value)> condition) {
  SmallVector<Value> open = {value};
  llvm::DenseSet<Value> seen = {value};
  while (!open.empty()) {
    Value current = open.pop_back_val();
    if (condition(current))
      return true;
    if (isProduct(current))
      continue;
    for (Value source : sourcesOf(current))
      if (seen.insert(source).second)
        open.push_back(source);
  }
  return false;
}

/// Whether it is a maximum that may be as low as any number.
bool isLowMaximum(Value value) {
  auto op = value.getDefiningOp<BinaryOp>();
  if (!op || op.getFn() != BinaryFn::Max)
    return false;
  return llvm::any_of(op->getOperands(), [](Value operand) {
    auto constant = operand.getDefiningOp<ConstantOp>();
    return constant && constant.getValue().convertToDouble() == -std::numeric_limits<float>::max();
  });
}

/// The special form in which a function is emitted, if it has one: an exponential of scores that
/// may be huge, or a function for which only 16 bits of the results count and less work suffices.
EmitScalar emitterOf(UnaryOp op) {
  if (!op.getType().getElementType().isF32())
    return nullptr;
  if (op.getFn() == UnaryFn::Gelu)
    return isOnlyRounded(op.getResult()) ? emitCoarseGelu : nullptr;
  if (op.getFn() != UnaryFn::Exp)
    return nullptr;
  if (comesFrom(op.getOperand(), isLowMaximum))
    return emitFarExp;
  return isRounded(op.getResult()) && comesFrom(op.getOperand(), isProduct) ? emitCoarseExp
                                                                            : nullptr;
}

struct CoarseLowering : ThreadPattern<UnaryOp> {
  CoarseLowering(const TypeConverter &converter, MLIRContext *context,
                 const ScalarEmitters &emitters)
      : ThreadPattern(converter, context, /*benefit=*/2), emitters(emitters) {}

  LogicalResult lower(UnaryOp op, Adaptor operands, Emitter &e, Results &results) const override {
    EmitScalar emit = emitters.lookup(op);
    if (!emit)
      return failure();
    SmallVector<Value> scalars = unpack(e, op.getType(), operands.getOperand());
    for (Value &scalar : scalars)
      scalar = emit(e, scalar);
    results.push_back(pack(e, op.getType(), scalars));
    return success();
  }

private:
  const ScalarEmitters &emitters;
};
} // namespace

ScalarEmitters mirage::thread::findScalarEmitters(Operation *root) {
  ScalarEmitters found;
  root->walk([&](UnaryOp op) {
    if (EmitScalar emit = emitterOf(op))
      found[op] = emit;
  });
  return found;
}

void mirage::thread::populateCoarsePatterns(const TypeConverter &converter,
                                            RewritePatternSet &patterns,
                                            const ScalarEmitters &emitters) {
  patterns.add<CoarseLowering>(converter, patterns.getContext(), emitters);
}
