//===- Elementwise.cpp - ops on each register -----------------------------===//

#include "Patterns.h"
#include "ScalarFunctions.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mirage;
using namespace mirage::thread;

namespace {
/// The same scalar in every register.
SmallVector<Value> fill(Emitter &e, FragmentType type, Value scalar) {
  return pack(e, type, SmallVector<Value>(type.getNumRegisters(), scalar));
}

/// Each register of `operand` becomes `fn(register, scalar)`.
SmallVector<Value> map(Emitter &e, FragmentType type, ValueRange operand,
                       llvm::function_ref<Value(size_t, Value)> fn) {
  SmallVector<Value> scalars = unpack(e, type, operand);
  for (auto [i, scalar] : llvm::enumerate(scalars))
    scalar = fn(i, scalar);
  return pack(e, type, scalars);
}

/// Multiplies in f32, whatever the type.
Value multiply(Emitter &e, Value scalar, Value factor) {
  return e.fromF32(e.fmul(e.toF32(scalar), e.toF32(factor)), scalar.getType());
}

struct ConstantLowering : ThreadPattern<ConstantOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(ConstantOp op, Adaptor, Emitter &e, Results &results) const override {
    FragmentType type = op.getType();
    results.push_back(
        fill(e, type, e.constant(type.getElementType(), op.getValue().convertToDouble())));
    return success();
  }
};

struct SplatLowering : ThreadPattern<SplatOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(SplatOp op, Adaptor operands, Emitter &e, Results &results) const override {
    results.push_back(fill(e, op.getType(), single(operands.getValue())));
    return success();
  }
};

struct IotaLowering : ThreadPattern<IotaOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(IotaOp op, Adaptor operands, Emitter &e, Results &results) const override {
    FragmentType type = op.getType();
    const LinearLayout &layout = type.getLinearLayout();
    Value base = e.add(e.toI32(single(operands.getOffset())), e.threadOffset(layout, op.getDim()));
    SmallVector<Value> scalars;
    for (int64_t i = 0; i < type.getNumRegisters(); ++i) {
      Value index = e.add(base, layout.getRegister(i)[op.getDim()]);
      if (type.getElementType().isF32())
        index = arith::SIToFPOp::create(e, e.getF32Type(), index);
      else if (type.getElementType().isInteger(64))
        index = e.createOrFold<arith::ExtSIOp>(e.getI64Type(), index);
      scalars.push_back(index);
    }
    results.push_back(scalars);
    return success();
  }
};

/// Exact in 2-byte types too: computed without a detour over f32.
Value emitNarrowUnary(Emitter &e, UnaryFn fn, Value x) {
  Type type = x.getType();
  switch (fn) {
  case UnaryFn::Neg:
    return arith::NegFOp::create(e, x);
  case UnaryFn::Relu:
    return arith::MaximumFOp::create(e, x, e.constant(type, 0));
  default:
    return e.fromF32(emitUnary(e, fn, e.toF32(x)), type);
  }
}

struct UnaryLowering : ThreadPattern<UnaryOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(UnaryOp op, Adaptor operands, Emitter &e, Results &results) const override {
    UnaryFn fn = op.getFn();
    bool isWide = op.getType().getElementType().isF32();
    results.push_back(map(e, op.getType(), operands.getOperand(), [&](size_t, Value x) {
      return isWide ? emitUnary(e, fn, x) : emitNarrowUnary(e, fn, x);
    }));
    return success();
  }
};

Value emitIntegerBinary(Emitter &e, BinaryFn fn, Value a, Value b) {
  switch (fn) {
  case BinaryFn::Add:
    return e.add(a, b);
  case BinaryFn::Sub:
    return e.sub(a, b);
  case BinaryFn::Mul:
    return e.createOrFold<arith::MulIOp>(a, b);
  case BinaryFn::Max:
    return e.createOrFold<arith::MaxSIOp>(a, b);
  default:
    return e.createOrFold<arith::MinSIOp>(a, b);
  }
}

struct BinaryLowering : ThreadPattern<BinaryOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(BinaryOp op, Adaptor operands, Emitter &e, Results &results) const override {
    FragmentType type = op.getType();
    Type element = type.getElementType();
    std::optional<double> constant;
    if (auto known = op.getRhs().getDefiningOp<ConstantOp>())
      constant = known.getValue().convertToDouble();
    SmallVector<Value> rhs = unpack(e, type, operands.getRhs());
    results.push_back(map(e, type, operands.getLhs(), [&](size_t i, Value lhs) -> Value {
      if (element.isInteger())
        return emitIntegerBinary(e, op.getFn(), lhs, rhs[i]);
      return e.fromF32(emitBinary(e, op.getFn(), e.toF32(lhs), e.toF32(rhs[i]), constant), element);
    }));
    return success();
  }
};

struct ScaleLowering : ThreadPattern<ScaleOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(ScaleOp op, Adaptor operands, Emitter &e, Results &results) const override {
    Value factor = e.f32(op.getFactor().convertToDouble());
    results.push_back(map(e, op.getType(), operands.getOperand(),
                          [&](size_t, Value x) { return multiply(e, x, factor); }));
    return success();
  }
};

/// Sums are rescaled if a maximum has grown, which becomes rare. If it has grown in no row of a
/// warp, all factors are 1, and a warp that detects this skips many products.
struct RescaleLowering : ThreadPattern<RescaleOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(RescaleOp op, Adaptor operands, Emitter &e, Results &results) const override {
    constexpr size_t kWorthwhile = 8; // products a factor
    FragmentType type = op.getType();
    SmallVector<Value> factors = unpack(e, op.getFactor().getType(), operands.getFactor());
    auto rescale = [&] {
      return map(e, type, operands.getOperand(),
                 [&](size_t i, Value x) { return multiply(e, x, factors[i]); });
    };
    llvm::SmallSetVector<Value, 4> different(factors.begin(), factors.end());
    if (!type.getElementType().isF32() || different.size() * kWorthwhile > factors.size()) {
      results.push_back(rescale());
      return success();
    }
    Value grown;
    for (Value factor : different) {
      Value isOther = e.fcompare(arith::CmpFPredicate::UNE, factor, e.f32(1));
      grown = grown ? arith::OrIOp::create(e, grown, isOther).getResult() : isOther;
    }
    Value any = e.intrinsic("llvm.nvvm.vote.any.sync", e.getI1Type(), {e.i32(-1), grown});
    auto branch = scf::IfOp::create(e, TypeRange(operands.getOperand()), any,
                                    /*withElseRegion=*/true);
    {
      OpBuilder::InsertionGuard guard(e);
      e.setInsertionPointToStart(branch.thenBlock());
      scf::YieldOp::create(e, rescale());
      e.setInsertionPointToStart(branch.elseBlock());
      scf::YieldOp::create(e, operands.getOperand());
    }
    results.push_back(llvm::to_vector_of<Value>(branch.getResults()));
    return success();
  }
};

/// A choice between two fragments, which simplifies a branch that yields them.
struct SelectLowering : ThreadPattern<arith::SelectOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(arith::SelectOp op, Adaptor operands, Emitter &e,
                      Results &results) const override {
    SmallVector<Value> chosen;
    for (auto [a, b] : llvm::zip_equal(operands.getTrueValue(), operands.getFalseValue()))
      chosen.push_back(arith::SelectOp::create(e, single(operands.getCondition()), a, b));
    results.push_back(chosen);
    return success();
  }
};

struct ExceedsLowering : ThreadPattern<ExceedsOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(ExceedsOp op, Adaptor operands, Emitter &e, Results &results) const override {
    SmallVector<Value> values = unpack(e, op.getOperand().getType(), operands.getOperand());
    Value limit = e.f32(float(op.getLimit().convertToDouble())), exceeds;
    for (Value value : llvm::SmallSetVector<Value, 4>(values.begin(), values.end())) {
      Value isBeyond = e.fcompare(arith::CmpFPredicate::UGT, value, limit);
      exceeds = exceeds ? arith::OrIOp::create(e, exceeds, isBeyond).getResult() : isBeyond;
    }
    results.push_back(
        {e.intrinsic("llvm.nvvm.vote.any.sync", e.getI1Type(), {e.i32(-1), exceeds})});
    return success();
  }
};

/// Two f32 to a pair of 2-byte floats by one instruction.
Value convertPair(Emitter &e, Value low, Value high, Type element) {
  StringRef name = element.isF16() ? "llvm.nvvm.ff2f16x2.rn" : "llvm.nvvm.ff2bf16x2.rn";
  return e.intrinsic(name, VectorType::get({2}, element), {high, low});
}

struct CastLowering : ThreadPattern<CastOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(CastOp op, Adaptor operands, Emitter &e, Results &results) const override {
    FragmentType from = op.getOperand().getType(), to = op.getType();
    SmallVector<Value> scalars = unpack(e, from, operands.getOperand());
    if (from.getElementType().isF32() && isa<VectorType>(getRegisterTypes(to).front())) {
      SmallVector<Value> pairs;
      for (size_t i = 0; i < scalars.size(); i += 2)
        pairs.push_back(convertPair(e, scalars[i], scalars[i + 1], to.getElementType()));
      results.push_back(pairs);
      return success();
    }
    for (Value &scalar : scalars)
      scalar = e.fromF32(e.toF32(scalar), to.getElementType());
    results.push_back(pack(e, to, scalars));
    return success();
  }
};

struct MaskLowering : ThreadPattern<MaskOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(MaskOp op, Adaptor operands, Emitter &e, Results &results) const override {
    FragmentType type = op.getType();
    const LinearLayout &layout = type.getLinearLayout();
    // Kept where the register's own index is below the rest of the extent.
    Value left = e.sub(e.i32(op.getExtent()), e.toI32(single(operands.getOffset())));
    left = e.sub(left, e.threadOffset(layout, op.getDim()));
    Value padding = e.constant(type.getElementType(), op.getFill().convertToDouble());
    auto isKept = op.getBelow() ? arith::CmpIPredicate::sge : arith::CmpIPredicate::slt;
    results.push_back(map(e, type, operands.getOperand(), [&](size_t i, Value x) {
      Value index = e.i32(layout.getRegister(i)[op.getDim()]);
      return e.select(e.compare(isKept, index, left), x, padding);
    }));
    return success();
  }
};
} // namespace

void mirage::thread::populateElementwisePatterns(const TypeConverter &converter,
                                                 RewritePatternSet &patterns) {
  patterns.add<ConstantLowering, SplatLowering, IotaLowering, UnaryLowering, BinaryLowering,
               ScaleLowering, RescaleLowering, SelectLowering, ExceedsLowering, CastLowering,
               MaskLowering>(converter, patterns.getContext());
}
