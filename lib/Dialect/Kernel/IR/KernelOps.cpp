//===- KernelOps.cpp - verifiers of tensor ops ----------------------------===//

#include "mirage/Dialect/Common/Assembly.h"
#include "mirage/Dialect/Common/ElementTypes.h"
#include "mirage/Dialect/Common/IntegerFormula.h"
#include "mirage/Dialect/Common/ScalarFacts.h"
#include "mirage/Dialect/Common/Shapes.h"
#include "mirage/Dialect/Kernel/IR/Kernel.h"

#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace mirage;
using namespace mirage::kernel;

#define GET_OP_CLASSES
#include "mirage/Dialect/Kernel/IR/KernelOps.cpp.inc"

namespace {

ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

Type elementOf(Value value) { return cast<RankedTensorType>(value.getType()).getElementType(); }

LogicalResult verifyElementType(Operation *op, Type expected) {
  Type actual = elementOf(op->getResult(0));
  if (expected == actual)
    return success();
  return op->emitOpError("expected a result of element type ") << expected << ", got " << actual;
}

/// The result type of an op that computes with elements of the type: f32 for 8-bit
/// floats, otherwise the type itself.
Type computedType(Type element) {
  return isEightBitFloat(element) ? Float32Type::get(element.getContext()) : element;
}

/// The smallest element type that holds all operands (f16 with bf16 gives f32, and so do
/// 8-bit floats). Integers count only if no operand is a float, and rank-0 operands only
/// if all operands have rank 0.
Type promote(ValueRange operands) {
  SmallVector<Type> types;
  for (bool scalars : {false, true}) {
    for (Value operand : operands)
      if (shapeOf(operand).empty() == scalars)
        types.push_back(elementOf(operand));
    if (!types.empty())
      break;
  }
  if (llvm::all_of(types, [](Type type) { return type.isInteger(); }))
    return *llvm::max_element(types, [](Type a, Type b) {
      return a.getIntOrFloatBitWidth() < b.getIntOrFloatBitWidth();
    });
  llvm::erase_if(types, [](Type type) { return type.isInteger(); });
  for (Type type : types) {
    if (type.isF64())
      return type;
  }
  if (llvm::all_equal(types))
    return computedType(types.front());
  return Float32Type::get(types.front().getContext());
}

LogicalResult verifySizes(Operation *op, ArrayRef<int64_t> expected, ArrayRef<int64_t> actual,
                          StringRef what) {
  if (expected == actual)
    return success();
  return op->emitOpError("expected ")
         << what << " of shape " << formatShape(expected) << ", got " << formatShape(actual);
}

} // namespace

LogicalResult AllReduceOp::verify() {
  if (failed(verifySameShape(*this, shapeOf(getInput()), shapeOf(getResult()))))
    return failure();
  return verifyElementType(*this, elementOf(getInput()));
}

LogicalResult UnaryOp::verify() {
  if (failed(verifySameShape(*this, shapeOf(getInput()), shapeOf(getResult()))))
    return failure();
  if (Type rounded = getRoundedType(getFn(), getContext()))
    return verifyElementType(*this, rounded);
  return verifyElementType(*this, computedType(elementOf(getInput())));
}

LogicalResult BinaryOp::verify() {
  if (failed(verifyBinary(*this, shapeOf(getLhs()), shapeOf(getRhs()), shapeOf(getResult()))))
    return failure();
  if (isTruth(getFn()))
    return verifyElementType(*this, IntegerType::get(getContext(), 1));
  if (getFn() == BinaryFn::Keep)
    return verifyElementType(*this, elementOf(getRhs()));
  return verifyElementType(*this, promote(getOperands()));
}

LogicalResult CastOp::verify() {
  Type from = elementOf(getInput()), to = elementOf(getResult());
  if (to.isInteger(1) && from != to)
    return emitOpError("expected a conversion that keeps each number, got ")
           << from << " to " << to << "; compare with binary ne 0";
  if (isEightBitFloat(to) && from != to)
    return emitOpError("expected a conversion that keeps each number, got ")
           << from << " to " << to << "; round with unary "
           << (isa<Float8E4M3FNType>(to) ? "round_e4m3" : "round_e5m2");
  if (getWhole() && !to.isInteger())
    return emitOpError("expected a conversion to integers that are `whole`, got ")
           << from << " to " << to;
  return verifySameShape(*this, shapeOf(getInput()), shapeOf(getResult()));
}

LogicalResult IotaOp::verify() {
  ArrayRef<int64_t> shape = shapeOf(getResult());
  if (static_cast<int64_t>(getDim()) >= static_cast<int64_t>(shape.size()))
    return emitOpError("expected a dimension below ") << shape.size() << ", got " << getDim();
  Type element = elementOf(getResult());
  if (!element.isInteger(32) && !element.isInteger(64))
    return emitOpError("expected positions of type i32 or i64, got ") << element;
  return success();
}

LogicalResult GatherOp::verify() {
  ArrayRef<int64_t> table = shapeOf(getTable());
  if (table.empty())
    return emitOpError("expected a table with rows, got one of rank 0");
  Shape shape(shapeOf(getIndices()));
  llvm::append_range(shape, table.drop_front());
  if (failed(verifySameShape(*this, shape, shapeOf(getResult()))))
    return failure();
  return verifyElementType(*this, elementOf(getTable()));
}

LogicalResult IntegersOp::verify() {
  auto error = [&] { return emitOpError(); };
  FailureOr<IntegerFormula> formula = IntegerFormula::parse(error, getFormula());
  if (failed(formula))
    return failure();
  return formula->verify(error, getInputs().getTypes(), shapeOf(getResult()),
                         elementOf(getResult()));
}

LogicalResult IndexCopyOp::verify() {
  Shape row(shapeOf(getTensor()));
  if (getDim() >= row.size())
    return emitOpError("expected a dimension below ") << row.size() << ", got " << getDim();
  row[getDim()] = 1;
  auto index = cast<RankedTensorType>(getIndex().getType());
  if (index.getNumElements() != 1)
    return emitOpError("expected an index of one element, got ") << index;
  if (shapeOf(getRow()) != ArrayRef<int64_t>(row))
    return emitOpError("expected a row of shape ")
           << formatShape(row) << ", got " << formatShape(shapeOf(getRow()));
  if (elementOf(getRow()) != elementOf(getTensor()))
    return emitOpError("expected a row of the tensor's element type ")
           << elementOf(getTensor()) << ", got " << elementOf(getRow());
  if (failed(verifySameShape(*this, shapeOf(getTensor()), shapeOf(getResult()))))
    return failure();
  return verifyElementType(*this, elementOf(getTensor()));
}

LogicalResult MatmulOp::verify() {
  if (failed(verifyMatmul(*this, shapeOf(getLhs()), shapeOf(getRhs()), shapeOf(getResult()))))
    return failure();
  for (Value factor : getOperands())
    if (getTf32() && !elementOf(factor).isF32())
      return emitOpError("expected factors of f32 to be rounded to TF32, got ") << factor.getType();
  return verifyElementType(*this, promote(getOperands()));
}

LogicalResult ReduceOp::verify() {
  if (failed(verifyReduce(*this, shapeOf(getInput()), getDims(), shapeOf(getResult()))))
    return failure();
  return verifyElementType(*this, computedType(elementOf(getInput())));
}

LogicalResult CumulateOp::verify() {
  if (failed(verifyCumulate(*this, shapeOf(getInput()), getDim(), shapeOf(getResult()))))
    return failure();
  return verifyElementType(*this, computedType(elementOf(getInput())));
}

LogicalResult IntegerReduceOp::verify() {
  if (failed(verifyReduce(*this, shapeOf(getInput()), getDims(), shapeOf(getResult()))))
    return failure();
  return verifyElementType(*this, elementOf(getInput()));
}

LogicalResult IntegerCumulateOp::verify() {
  if (failed(verifyCumulate(*this, shapeOf(getInput()), getDim(), shapeOf(getResult()))))
    return failure();
  return verifyElementType(*this, elementOf(getInput()));
}

LogicalResult ArgsortOp::verify() {
  Shape shape(shapeOf(getInput())), result(shapeOf(getResult()));
  size_t dim = getDim();
  if (dim < std::min(shape.size(), result.size()) && result[dim] < shape[dim])
    shape[dim] = result[dim];
  if (failed(verifyCumulate(*this, shape, dim, result)))
    return failure();
  return verifyElementType(*this, IntegerType::get(getContext(), 64));
}

LogicalResult TransposeOp::verify() {
  if (failed(verifyTranspose(*this, shapeOf(getInput()), getPermutation(), shapeOf(getResult()))))
    return failure();
  return verifyElementType(*this, elementOf(getInput()));
}

LogicalResult ReshapeOp::verify() {
  auto input = cast<RankedTensorType>(getInput().getType());
  auto result = cast<RankedTensorType>(getResult().getType());
  if (input.getNumElements() != result.getNumElements())
    return emitOpError("expected a result of ")
           << input.getNumElements() << " elements, got " << formatShape(result.getShape());
  return verifyElementType(*this, input.getElementType());
}

LogicalResult BroadcastOp::verify() {
  if (failed(verifyBroadcast(*this, shapeOf(getInput()), shapeOf(getResult()))))
    return failure();
  return verifyElementType(*this, elementOf(getInput()));
}

LogicalResult ConcatOp::verify() {
  if (getInputs().empty())
    return emitOpError("expected at least one operand, got none");
  int64_t dim = getDim();
  Shape shape(shapeOf(getInputs().front()));
  if (dim >= static_cast<int64_t>(shape.size()))
    return emitOpError("expected a dimension below ") << shape.size() << ", got " << dim;
  shape[dim] = 0;
  for (Value input : getInputs()) {
    ArrayRef<int64_t> other = shapeOf(input);
    Shape rest(other);
    if (rest.size() == shape.size())
      rest[dim] = shape[dim];
    if (rest != shape)
      return emitOpError("expected operands of equal shape outside of dimension ")
             << dim << ", got " << formatShape(shapeOf(getInputs().front())) << " and "
             << formatShape(other);
    shape[dim] += other[dim];
  }
  if (failed(verifySameShape(*this, shape, shapeOf(getResult()))))
    return failure();
  if (llvm::all_equal(llvm::map_range(getInputs(), elementOf)))
    return verifyElementType(*this, elementOf(getInputs().front()));
  return verifyElementType(*this, promote(getInputs()));
}

LogicalResult SliceOp::verify() {
  ArrayRef<int64_t> input = shapeOf(getInput()), result = shapeOf(getResult());
  if (getOffsets().size() != input.size() || result.size() != input.size())
    return emitOpError("expected offsets and a result of rank ")
           << input.size() << ", got " << formatList(getOffsets()) << " and "
           << formatShape(result);
  for (auto [offset, size, whole] : llvm::zip(getOffsets(), result, input))
    if (offset < 0 || offset + size > whole)
      return emitOpError("expected a block inside of ")
             << formatShape(input) << ", got offsets " << formatList(getOffsets()) << " and sizes "
             << formatShape(result);
  return verifyElementType(*this, elementOf(getInput()));
}

std::optional<int64_t> SliceOp::getContiguousStart() {
  ArrayRef<int64_t> input = shapeOf(getInput()), result = shapeOf(getResult());
  int64_t start = 0, stride = 1;
  bool cut = false;
  for (int64_t dim = input.size() - 1; dim >= 0; --dim) {
    if (cut && result[dim] != 1)
      return std::nullopt;
    cut |= result[dim] != input[dim];
    start += getOffsets()[dim] * stride;
    stride *= input[dim];
  }
  return start;
}

LogicalResult SoftmaxOp::verify() {
  int64_t rank = shapeOf(getInput()).size();
  if (static_cast<int64_t>(getDim()) >= rank)
    return emitOpError("expected a dimension below ") << rank << ", got " << getDim();
  if (failed(verifySameShape(*this, shapeOf(getInput()), shapeOf(getResult()))))
    return failure();
  return verifyElementType(*this, computedType(elementOf(getInput())));
}

/// Checks of rms_norm and layer_norm: gain and bias have the normalised shape.
static LogicalResult verifyNorm(Operation *op, Value input, ValueRange parameters, int64_t dims) {
  ArrayRef<int64_t> shape = shapeOf(input);
  if (dims > static_cast<int64_t>(shape.size()))
    return op->emitOpError("expected to normalise at most ")
           << shape.size() << " dimensions, got " << dims;
  for (Value parameter : parameters)
    if (failed(verifySizes(op, shape.take_back(dims), shapeOf(parameter), "a gain or bias")))
      return failure();
  if (failed(verifySameShape(op, shape, shapeOf(op->getResult(0)))))
    return failure();
  return verifyElementType(op, computedType(elementOf(input)));
}

LogicalResult RmsNormOp::verify() {
  return verifyNorm(*this, getInput(), getGain() ? ValueRange(getGain()) : ValueRange(), getDims());
}

LogicalResult LayerNormOp::verify() {
  if (getInputs().empty() || getInputs().size() > 3)
    return emitOpError("expected an input, a gain and a bias at most, got ")
           << getInputs().size() << " operands";
  return verifyNorm(*this, getInputs().front(), getInputs().drop_front(), getDims());
}
