//===- KernelDecompose.cpp - definitions of the composite ops -------------===//
//
// The composites compute in f32 (f64 for f64) and round once, at the end, as
// PyTorch's kernels do.
//
//===----------------------------------------------------------------------===//

#include "mirage/Dialect/Kernel/IR/Kernel.h"

#include "mlir/IR/TypeUtilities.h"

#include <numeric>

using namespace mlir;
using namespace mirage;
using namespace mirage::kernel;

namespace {

/// Emits primitive ops at one location, computing in one wide type.
class Emitter {
public:
  Emitter(OpBuilder &b, Location l, Type elementType)
      : builder(b), loc(l), wide(elementType.isF64() ? elementType : b.getF32Type()) {}

  Value cast(Value x, Type element) {
    auto type = cast_(x).clone(element);
    return type == x.getType() ? x : CastOp::create(builder, loc, type, x).getResult();
  }
  Value widen(Value x) { return cast(x, wide); }

  Value constant(double value) {
    return ConstantOp::create(builder, loc, RankedTensorType::get({}, wide),
                              builder.getF64FloatAttr(value));
  }
  Value unary(UnaryFn fn, Value x) { return UnaryOp::create(builder, loc, x.getType(), fn, x); }

  /// The result has the type of `lhs`: `rhs` broadcasts to it.
  Value binary(BinaryFn fn, Value lhs, Value rhs) {
    return BinaryOp::create(builder, loc, lhs.getType(), fn, lhs, rhs);
  }
  Value reduce(ReduceFn fn, Value x, ArrayRef<int64_t> dims) {
    SmallVector<int64_t> shape(cast_(x).getShape());
    for (int64_t dim : dims)
      shape[dim] = 1;
    return ReduceOp::create(builder, loc, cast_(x).clone(shape), fn, x, dims);
  }
  /// Mean over `dims`.
  Value mean(Value x, ArrayRef<int64_t> dims) {
    int64_t count = 1;
    for (int64_t dim : dims)
      count *= cast_(x).getDimSize(dim);
    Value sum = reduce(ReduceFn::Sum, x, dims);
    return binary(BinaryFn::Mul, sum, constant(1.0 / count));
  }
  /// x * rsqrt(variance + eps)
  Value scaleByDeviation(Value x, Value variance, double eps) {
    Value shifted = binary(BinaryFn::Add, variance, constant(eps));
    return binary(BinaryFn::Mul, x, unary(UnaryFn::Rsqrt, shifted));
  }

private:
  static RankedTensorType cast_(Value x) { return llvm::cast<RankedTensorType>(x.getType()); }

  OpBuilder &builder;
  Location loc;
  Type wide;
};

SmallVector<int64_t> lastDims(Value x, int64_t count) {
  SmallVector<int64_t> dims(count);
  std::iota(dims.begin(), dims.end(), cast<RankedTensorType>(x.getType()).getRank() - count);
  return dims;
}

} // namespace

Value SoftmaxOp::decompose(OpBuilder &builder, bool stable) {
  Emitter emit(builder, getLoc(), getElementTypeOrSelf(getInput()));
  int64_t dim = getDim();
  Value x = emit.widen(getInput());
  if (stable)
    x = emit.binary(BinaryFn::Sub, x, emit.reduce(ReduceFn::Max, x, dim));
  Value e = emit.unary(UnaryFn::Exp, x);
  Value quotient = emit.binary(BinaryFn::Div, e, emit.reduce(ReduceFn::Sum, e, dim));
  return emit.cast(quotient, getElementTypeOrSelf(getInput()));
}

Value RmsNormOp::decompose(OpBuilder &builder, bool) {
  Emitter emit(builder, getLoc(), getElementTypeOrSelf(getInput()));
  Value x = emit.widen(getInput());
  Value meanSquare = emit.mean(emit.unary(UnaryFn::Square, x), lastDims(x, getDims()));
  Value y = emit.scaleByDeviation(x, meanSquare, getEps().convertToDouble());
  if (getGain())
    y = emit.binary(BinaryFn::Mul, y, emit.widen(getGain()));
  return emit.cast(y, getElementTypeOrSelf(getInput()));
}

Value LayerNormOp::decompose(OpBuilder &builder, bool) {
  Value input = getInputs().front();
  Emitter emit(builder, getLoc(), getElementTypeOrSelf(input));
  Value x = emit.widen(input);
  SmallVector<int64_t> dims = lastDims(x, getDims());
  Value centered = emit.binary(BinaryFn::Sub, x, emit.mean(x, dims));
  Value variance = emit.mean(emit.unary(UnaryFn::Square, centered), dims);
  Value y = emit.scaleByDeviation(centered, variance, getEps().convertToDouble());
  if (getInputs().size() > 1)
    y = emit.binary(BinaryFn::Mul, y, emit.widen(getInputs()[1]));
  if (getInputs().size() > 2)
    y = emit.binary(BinaryFn::Add, y, emit.widen(getInputs()[2]));
  return emit.cast(y, getElementTypeOrSelf(input));
}
