//===- Mma.cpp - thread.mma as mma.sync -----------------------------------===//

#include "Patterns.h"

#include "mirage/Dialect/Thread/IR/MmaPlan.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mirage::thread;

namespace {
struct MmaLowering : ThreadPattern<MmaOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult lower(MmaOp op, Adaptor operands, Emitter &e, Results &results) const override {
    FragmentType lhs = op.getLhs().getType();
    std::string message;
    FailureOr<MmaPlan> plan = planMma(lhs, op.getRhs().getType(), op.getAcc().getType(), message);
    if (failed(plan))
      return op.emitOpError(message);
    SmallVector<Value> acc(operands.getAcc());
    if (op.getTf32())
      multiplyRounded(e, *plan, split(e, op.getLhs(), operands.getLhs(), /*rounds=*/true),
                      split(e, op.getRhs(), operands.getRhs(), /*rounds=*/true), acc);
    else if (lhs.getElementType().isF32())
      multiplySplit(e, *plan, split(e, op.getLhs(), operands.getLhs(), /*rounds=*/false),
                    split(e, op.getRhs(), operands.getRhs(), /*rounds=*/false), acc);
    else
      multiply(e, *plan, lhs.getElementType(), operands.getLhs(), operands.getRhs(), acc);
    results.push_back(acc);
    return success();
  }

  static void instruction(Emitter &e, ArrayRef<Value> lhs, ArrayRef<Value> rhs,
                          MutableArrayRef<Value> acc, NVVM::MMATypes types, int64_t k) {
    auto result =
        LLVM::LLVMStructType::getLiteral(e.getContext(), SmallVector<Type>(4, e.getF32Type()));
    std::array<NVVM::MMATypes, 2> operandTypes = {types, types};
    std::array<NVVM::MMALayout, 2> layouts = {NVVM::MMALayout::row, NVVM::MMALayout::col};
    Value product = NVVM::MmaOp::create(e, result, lhs, rhs, acc, ArrayRef<int64_t>{16, 8, k},
                                        std::nullopt, std::nullopt, operandTypes, layouts);
    for (int64_t i = 0; i < 4; ++i)
      acc[i] = LLVM::ExtractValueOp::create(e, product, i);
  }

  /// f16 and bf16: registers are pairs.
  static void multiply(Emitter &e, const MmaPlan &plan, Type element, ValueRange lhs,
                       ValueRange rhs, SmallVector<Value> &acc) {
    bool half = element.isF16();
    auto operand = [&](ValueRange pairs, int64_t tile, int64_t registers) {
      SmallVector<Value> values(pairs.slice(tile * registers / 2, registers / 2));
      if (!half)
        for (Value &value : values)
          value = e.bitcast(value, e.getI32Type());
      return values;
    };
    for (MmaPlan::Step step : plan.steps)
      instruction(e, operand(lhs, step.lhs, plan.lhsRegisters),
                  operand(rhs, step.rhs, plan.rhsRegisters),
                  MutableArrayRef(acc).slice(step.acc * 4, 4),
                  half ? NVVM::MMATypes::f16 : NVVM::MMATypes::bf16, 16);
  }

  /// Whether all elements of an f32 fragment were numbers of 16 bits, which TF32 represents
  /// exactly.
  static bool wasHalf(Value fragment) {
    Operation *op = fragment.getDefiningOp();
    if (auto cast = dyn_cast_or_null<CastOp>(op))
      return cast.getOperand().getType().getElementType().getIntOrFloatBitWidth() == 16;
    return isa_and_nonnull<SliceOp, TransposeOp, ConvertLayoutOp, BroadcastOp>(op) &&
           wasHalf(op->getOperand(0));
  }

  /// f32 numbers as sums of two TF32 numbers (each with 11 significant bits), up
  /// to a relative error of 2^-22. An infinity becomes inf + NaN, and so may a NaN.
  /// There are no low numbers if they are all zero, or left out (`rounds`).
  struct Split {
    SmallVector<Value> high, low;
  };

  static Split split(Emitter &e, Value fragment, ValueRange values, bool rounds) {
    // The bits that TF32 lacks, and half of the last one that it has.
    constexpr int64_t kLast = int64_t{1} << 13, kHalf = kLast / 2;
    Split result;
    for (Value value : values) {
      Value bits = e.bitcast(value, e.getI32Type());
      if (wasHalf(fragment)) {
        result.high.push_back(bits);
      } else if (rounds) {
        result.high.push_back(e.intrinsic("llvm.nvvm.f2tf32.rna", e.getI32Type(), {value}));
      } else {
        // To nearest, except for the special numbers that the low part keeps. The result has twelve
        // bits, the last of which is cut off.
        Value high = e.bitAnd(e.add(bits, kHalf), -kLast);
        Value rest = e.fsub(value, e.bitcast(high, e.getF32Type()));
        result.high.push_back(high);
        result.low.push_back(e.bitAnd(e.bitcast(rest, e.getI32Type()), -kLast));
      }
    }
    return result;
  }

  static SmallVector<Value> part(ArrayRef<Value> values, int64_t tile, int64_t registers) {
    return SmallVector<Value>(values.slice(tile * registers, registers));
  }

  static void multiplyRounded(Emitter &e, const MmaPlan &plan, const Split &a, const Split &b,
                              SmallVector<Value> &acc) {
    for (MmaPlan::Step step : plan.steps)
      instruction(e, part(a.high, step.lhs, plan.lhsRegisters),
                  part(b.high, step.rhs, plan.rhsRegisters),
                  MutableArrayRef(acc).slice(step.acc * 4, 4), NVVM::MMATypes::tf32, 8);
  }

  /// Instructions of one sum that are in flight at once: they depend on each other, those of other
  /// sums do not.
  static constexpr size_t kBeside = 4;

  /// a b = low(a) high(b) + high(a) low(b) + high(a) high(b); low(a) low(b) is
  /// below 2^-22 of it. Small parts first. Tensor cores truncate sums instead of rounding them, so
  /// long sums would be too small: products start from zero, and ordinary additions sum them.
  static void multiplySplit(Emitter &e, const MmaPlan &plan, const Split &a, const Split &b,
                            SmallVector<Value> &acc) {
    Value zero = e.f32(0);
    for (ArrayRef<MmaPlan::Step> left = plan.steps; !left.empty();) {
      ArrayRef<MmaPlan::Step> steps = left.take_front(kBeside);
      left = left.drop_front(steps.size());
      SmallVector<Value> products(steps.size() * 4, zero);
      auto pass = [&](ArrayRef<Value> lhs, ArrayRef<Value> rhs) {
        if (lhs.empty() || rhs.empty())
          return;
        for (auto [number, step] : llvm::enumerate(steps))
          instruction(e, part(lhs, step.lhs, plan.lhsRegisters),
                      part(rhs, step.rhs, plan.rhsRegisters),
                      MutableArrayRef(products).slice(number * 4, 4), NVVM::MMATypes::tf32, 8);
      };
      pass(a.low, b.high);
      pass(a.high, b.low);
      pass(a.high, b.high);
      for (auto [number, step] : llvm::enumerate(steps))
        for (int64_t i = 0; i < 4; ++i) {
          Value &sum = acc[step.acc * 4 + i];
          sum = e.fadd(sum, products[number * 4 + i]);
        }
    }
  }
};
} // namespace

void mirage::thread::populateMmaPatterns(const TypeConverter &converter,
                                         RewritePatternSet &patterns) {
  patterns.add<MmaLowering>(converter, patterns.getContext());
}
