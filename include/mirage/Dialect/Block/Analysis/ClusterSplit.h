//===- ClusterSplit.h - how blocks share one position of the grid -*- C++ -*-===//

#ifndef MIRAGE_DIALECT_BLOCK_ANALYSIS_CLUSTERSPLIT_H
#define MIRAGE_DIALECT_BLOCK_ANALYSIS_CLUSTERSPLIT_H

#include "mirage/Dialect/Block/IR/Block.h"
#include "mirage/Dialect/Kernel/IR/Kernel.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/EquivalenceClasses.h"

#include <optional>
#include <string>

namespace mirage::block {

/// Which dimensions of a launch's tiles are cut, and which loops are shared, if `blocks` blocks do
/// the work of one. Dimensions of tiles outside of loops that have the same indices are cut
/// together: those of the longest dimension of each tile that is stored.
class ClusterSplit {
public:
  ClusterSplit(kernel::LaunchOp launch, int64_t blocks);

  /// The reason why the work cannot be shared; nullopt if it can.
  std::optional<std::string> whyNot() const { return reason; }
  /// The dimension of a tile that is cut, if one is.
  std::optional<unsigned> getCutDim(mlir::Value tile) const;
  /// Whether each block takes a part of the loop's steps.
  bool isShared(LoopOp loop) const { return shared.contains(loop); }
  /// Whether a block has the total of a part of what the op adds up.
  bool isPartial(ReduceOp reduce) const;

private:
  using Dim = std::pair<mlir::Value, unsigned>;

  void connect(mlir::Operation *op);
  void join(Dim a, Dim b);
  void chooseCuts();
  void checkCuts();
  void checkUses(mlir::Operation *op);
  bool canShare(LoopOp loop) const;
  void refuse(const llvm::Twine &expected);

  kernel::LaunchOp launch;
  int64_t blocks;
  llvm::EquivalenceClasses<Dim> classes;
  /// The first load of each part of a tensor.
  llvm::DenseMap<std::pair<mlir::Value, mlir::Attribute>, mlir::Value> loads;
  /// Leaders of the classes whose dimensions are cut.
  llvm::DenseSet<Dim> cuts;
  llvm::DenseSet<mlir::Operation *> shared;
  std::optional<std::string> reason;
};

} // namespace mirage::block

#endif // MIRAGE_DIALECT_BLOCK_ANALYSIS_CLUSTERSPLIT_H
