//===- Shapes.cpp - shape rules shared by kernel and block ops ------------===//

#include "mirage/Dialect/Common/Shapes.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using llvm::ArrayRef;

std::string mirage::formatShape(ArrayRef<int64_t> shape) {
  if (shape.empty())
    return "rank 0";
  std::string text;
  for (int64_t size : shape)
    text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

std::string mirage::formatList(ArrayRef<int64_t> numbers) {
  std::string text;
  for (int64_t number : numbers)
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  return "[" + text + "]";
}

std::optional<mirage::Shape> mirage::broadcastShapes(ArrayRef<int64_t> lhs, ArrayRef<int64_t> rhs) {
  if (lhs.size() < rhs.size())
    std::swap(lhs, rhs);
  Shape shape(lhs);
  size_t offset = lhs.size() - rhs.size();
  for (size_t i = 0; i < rhs.size(); ++i) {
    int64_t &size = shape[offset + i];
    if (size != rhs[i] && size != 1 && rhs[i] != 1)
      return std::nullopt;
    if (size == 1)
      size = rhs[i];
  }
  return shape;
}

LogicalResult mirage::verifySameShape(Operation *op, ArrayRef<int64_t> expected,
                                      ArrayRef<int64_t> actual) {
  if (expected == actual)
    return success();
  return op->emitOpError("expected a result of shape ")
         << formatShape(expected) << ", got " << formatShape(actual);
}

LogicalResult mirage::verifyBinary(Operation *op, ArrayRef<int64_t> lhs, ArrayRef<int64_t> rhs,
                                   ArrayRef<int64_t> result) {
  auto shape = broadcastShapes(lhs, rhs);
  if (!shape)
    return op->emitOpError("expected operands that broadcast, got ")
           << formatShape(lhs) << " and " << formatShape(rhs);
  return verifySameShape(op, *shape, result);
}

LogicalResult mirage::verifyMatmul(Operation *op, ArrayRef<int64_t> lhs, ArrayRef<int64_t> rhs,
                                   ArrayRef<int64_t> result) {
  if (lhs.size() < 2 || rhs.size() < 2)
    return op->emitOpError("expected operands of rank 2 or more, got ")
           << formatShape(lhs) << " and " << formatShape(rhs);
  if (lhs.back() != rhs[rhs.size() - 2])
    return op->emitOpError("expected the last size of the left operand to equal the last but one "
                           "of the right, got ")
           << formatShape(lhs) << " and " << formatShape(rhs);
  auto shape = broadcastShapes(lhs.drop_back(2), rhs.drop_back(2));
  if (!shape)
    return op->emitOpError("expected leading dimensions that broadcast, got ")
           << formatShape(lhs) << " and " << formatShape(rhs);
  shape->push_back(lhs[lhs.size() - 2]);
  shape->push_back(rhs.back());
  return verifySameShape(op, *shape, result);
}

LogicalResult mirage::verifyReduce(Operation *op, ArrayRef<int64_t> input, ArrayRef<int64_t> dims,
                                   ArrayRef<int64_t> result) {
  Shape shape(input);
  int64_t previous = -1;
  for (int64_t dim : dims) {
    if (dim <= previous || dim >= static_cast<int64_t>(input.size()))
      return op->emitOpError("expected sorted, distinct dimensions below ")
             << input.size() << ", got " << formatList(dims);
    shape[dim] = 1;
    previous = dim;
  }
  return verifySameShape(op, shape, result);
}

LogicalResult mirage::verifyCumulate(Operation *op, ArrayRef<int64_t> input, int64_t dim,
                                     ArrayRef<int64_t> result) {
  if (dim >= static_cast<int64_t>(input.size()))
    return op->emitOpError("expected a dimension below ") << input.size() << ", got " << dim;
  return verifySameShape(op, input, result);
}

LogicalResult mirage::verifyTranspose(Operation *op, ArrayRef<int64_t> input,
                                      ArrayRef<int64_t> permutation, ArrayRef<int64_t> result) {
  llvm::SmallVector<int64_t> sorted(permutation);
  llvm::sort(sorted);
  bool valid = sorted.size() == input.size();
  for (size_t i = 0; valid && i < sorted.size(); ++i)
    valid = sorted[i] == static_cast<int64_t>(i);
  if (!valid)
    return op->emitOpError("expected a permutation of ")
           << input.size() << " dimensions, got " << formatList(permutation);
  Shape shape;
  for (int64_t dim : permutation)
    shape.push_back(input[dim]);
  return verifySameShape(op, shape, result);
}

LogicalResult mirage::verifyBroadcast(Operation *op, ArrayRef<int64_t> input,
                                      ArrayRef<int64_t> result) {
  auto shape = broadcastShapes(input, result);
  if (!shape || ArrayRef<int64_t>(*shape) != result)
    return op->emitOpError("expected a result that ")
           << formatShape(input) << " broadcasts to, got " << formatShape(result);
  return success();
}
