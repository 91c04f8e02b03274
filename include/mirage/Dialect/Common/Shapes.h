//===- Shapes.h - shape rules shared by kernel and block ops ----*- C++ -*-===//
//
// The rules by which tensor ops and tile ops get the shapes of their results.
// Each emits an error at the op that states what was expected and what was given.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_COMMON_SHAPES_H
#define MIRAGE_DIALECT_COMMON_SHAPES_H

#include "mlir/IR/Operation.h"

#include <optional>

namespace mirage {

using Shape = llvm::SmallVector<int64_t>;

/// `4x8` for an error message.
std::string formatShape(llvm::ArrayRef<int64_t> shape);

/// `[4, 8]` for an error message.
std::string formatList(llvm::ArrayRef<int64_t> numbers);

/// The shape to which both broadcast as in NumPy, or nullopt.
std::optional<Shape> broadcastShapes(llvm::ArrayRef<int64_t> lhs, llvm::ArrayRef<int64_t> rhs);

mlir::LogicalResult verifySameShape(mlir::Operation *op, llvm::ArrayRef<int64_t> expected,
                                    llvm::ArrayRef<int64_t> actual);
mlir::LogicalResult verifyBinary(mlir::Operation *op, llvm::ArrayRef<int64_t> lhs,
                                 llvm::ArrayRef<int64_t> rhs, llvm::ArrayRef<int64_t> result);
mlir::LogicalResult verifyMatmul(mlir::Operation *op, llvm::ArrayRef<int64_t> lhs,
                                 llvm::ArrayRef<int64_t> rhs, llvm::ArrayRef<int64_t> result);
mlir::LogicalResult verifyCumulate(mlir::Operation *op, llvm::ArrayRef<int64_t> input, int64_t dim,
                                   llvm::ArrayRef<int64_t> result);
mlir::LogicalResult verifyReduce(mlir::Operation *op, llvm::ArrayRef<int64_t> input,
                                 llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> result);
mlir::LogicalResult verifyTranspose(mlir::Operation *op, llvm::ArrayRef<int64_t> input,
                                    llvm::ArrayRef<int64_t> permutation,
                                    llvm::ArrayRef<int64_t> result);
mlir::LogicalResult verifyBroadcast(mlir::Operation *op, llvm::ArrayRef<int64_t> input,
                                    llvm::ArrayRef<int64_t> result);

} // namespace mirage

#endif // MIRAGE_DIALECT_COMMON_SHAPES_H
