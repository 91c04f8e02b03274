//===- Copies.h - ops that only move elements -------------------*- C++ -*-===//

#ifndef MIRAGE_LIB_CONVERSION_BLOCKTOTHREAD_COPIES_H
#define MIRAGE_LIB_CONVERSION_BLOCKTOTHREAD_COPIES_H

#include "mirage/Dialect/Kernel/IR/Kernel.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/Builders.h"

namespace mirage {

/// Whether kernels write the operands of a join to their parts of it.
bool isWrittenInParts(kernel::ConcatOp concat);
/// Whether a launch stores a value, possibly in another shape, to its place in
/// another tensor.
bool isPlaced(mlir::Value value);
/// Whether only another join reads a join, and so copies its operands.
bool isPartOfJoin(kernel::ConcatOp op);

/// A kernel that copies blocks of its operands to blocks of its result, for
/// `kernel.slice` and `kernel.concat`.
class CopyKernel {
public:
  /// Threads of a block.
  static constexpr int64_t numWarps = 4, numThreads = 32 * numWarps;

  explicit CopyKernel(kernel::SliceOp op);
  /// Operands that are joins which only this one reads are replaced by their
  /// own operands.
  explicit CopyKernel(kernel::ConcatOp op);

  /// The tensors that are copied.
  mlir::ValueRange getSources() const { return sources; }
  /// Memrefs of the operands, then of the result; dimensions that no copy cuts
  /// are one.
  llvm::SmallVector<mlir::Type> getParameterTypes() const;
  int64_t getNumBlocks() const;
  /// Length of the result's rows if 32-bit indices do not suffice.
  std::optional<int64_t> getTooLongRow() const;
  void emitBody(mlir::OpBuilder &builder, mlir::Location loc, mlir::ValueRange parameters) const;

private:
  using Sizes = llvm::SmallVector<int64_t>;

  /// A block of elements, and the tiles in which it is copied. If columns of
  /// the tile are outside of the block, it has one tile along them.
  struct Part {
    unsigned source;
    Sizes sourceOffsets, resultOffsets, shape;
    /// Extents along the last two dimensions; the others have 1.
    int64_t rows, cols;
    int64_t getNumBlocks() const;
  };

  void addPart(unsigned source, Sizes sourceOffsets, Sizes resultOffsets, Sizes shape);
  /// The widest vector such that every row of every tile starts at a multiple
  /// of it.
  int64_t getVector(const Part &part) const;
  void emitPart(const Part &part, mlir::OpBuilder &builder, mlir::Location loc,
                mlir::ValueRange parameters, mlir::Value block) const;

  llvm::SmallVector<mlir::Value> sources;
  llvm::SmallVector<Sizes> sourceShapes;
  llvm::SmallVector<mlir::Type> sourceElements;
  Sizes resultShape;
  mlir::Type resultElement;
  llvm::SmallVector<Part> parts;
};

} // namespace mirage

#endif // MIRAGE_LIB_CONVERSION_BLOCKTOTHREAD_COPIES_H
