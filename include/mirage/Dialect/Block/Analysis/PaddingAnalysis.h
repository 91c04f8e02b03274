//===- PaddingAnalysis.h - extents of fragments -----------------*- C++ -*-===//
//
// A tile of any size is held by a fragment whose extents suit the layouts. The dimensions of tiles
// that ops relate to each other (elementwise ops, the m, n and k of matmuls) get the same padded
// extent, so a change of layout never changes the shape.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_BLOCK_ANALYSIS_PADDINGANALYSIS_H
#define MIRAGE_DIALECT_BLOCK_ANALYSIS_PADDINGANALYSIS_H

#include "mirage/Dialect/Block/IR/Block.h"
#include "mirage/Dialect/Kernel/IR/Kernel.h"

#include "llvm/ADT/EquivalenceClasses.h"

#include <array>

namespace mirage::block {

/// Whether a product of few rows is computed transposed, its rows on the small
/// side (8) of the tensor-core instruction.
bool prefersSwapped(MatmulOp matmul);

class PaddingAnalysis {
public:
  /// Precondition: flattened tiles.
  PaddingAnalysis(kernel::LaunchOp launch, int64_t numWarps);

  /// Extent of the fragment that holds the matrix `value` along `dim`.
  int64_t getExtent(mlir::Value value, int64_t dim) const;

private:
  using Key = std::pair<mlir::Value, unsigned>;

  void tie(Key a, Key b);
  void tieEqual(mlir::Value a, mlir::Value b);
  void tieDims(TileOpInterface tile, mlir::OpOperand &use);
  void visit(mlir::Operation *op);
  void require(mlir::Value value, unsigned dim, int64_t multiple);

  int64_t numWarps;
  mutable llvm::EquivalenceClasses<Key> classes;
  llvm::DenseMap<Key, int64_t> multiples;
};

} // namespace mirage::block

#endif // MIRAGE_DIALECT_BLOCK_ANALYSIS_PADDINGANALYSIS_H
