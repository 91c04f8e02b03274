//===- LayoutModel.h - layout assignment as a problem -----------*- C++ -*-===//
//
// The tiles of a launch that are held in registers fall into groups that must
// share a layout (elementwise ops, accumulators). Variables of the problem:
//
//   - for each group, one of its candidate layouts;
//   - for each matmul, how many warps go along m, n and k.
//
// Costs, in estimated instructions of one warp:
//
//   - of a choice: registers that elementwise ops touch (copies make work
//     twice), width and coalescing of loads and stores, tensor-core
//     instructions and operand reads of matmuls, spills that are in sight;
//   - of a pair of choices: the change of layout between a group (or a matmul)
//     that produces a tile and one that uses it, seen through the reduction,
//     broadcast or transpose between them.
//
// Each cost counts as often as its op runs, conversions being placed where the
// value is defined.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_BLOCK_ANALYSIS_LAYOUTMODEL_H
#define MIRAGE_DIALECT_BLOCK_ANALYSIS_LAYOUTMODEL_H

#include "mirage/Dialect/Block/Analysis/AssignmentProblem.h"
#include "mirage/Dialect/Block/Analysis/HeldTile.h"
#include "mirage/Dialect/Block/Analysis/PaddingAnalysis.h"
#include "mirage/Dialect/Thread/IR/Layouts.h"

#include "llvm/ADT/EquivalenceClasses.h"

#include <functional>

namespace mirage::block {

/// How the warps share one matmul; the grid is that of the instruction, whose m is the matmul's n
/// if it is swapped.
struct MatmulModel {
  MatmulOp op;
  bool swapped;
  /// Groups of four warps multiply tiles in shared memory; the grid counts
  /// groups.
  bool warpgroup;
  /// Padded extents of the instruction's operands.
  int64_t m, n, k;
  int64_t elementBytes;
  std::vector<thread::WarpGrid> grids;

  Product getProduct() const { return {m, n, k, elementBytes}; }

  /// Layouts of the tiles of the matmul op (not of the transposed product). Warps in excess of the
  /// grid hold copies.
  thread::LinearLayout getResult(const thread::WarpGrid &grid, int64_t numWarps) const;
  /// Layout of operand 0 or 1.
  thread::LinearLayout getOperand(int64_t index, const thread::WarpGrid &grid,
                                  int64_t numWarps) const;
};

/// Registers tiles that must share a layout.
struct LayoutGroup {
  int64_t rows = 0, cols = 0;
  llvm::SmallVector<mlir::Value> members;
  std::vector<thread::LinearLayout> candidates;
  /// Holds products of warpgroups, which know one family of layouts.
  bool fixed = false;
};

class LayoutModel {
public:
  /// Precondition: flattened tiles, and a schedule on the launch. `isStaged` says which loads go
  /// through shared memory; a block has `maxSharedBytes` of it.
  LayoutModel(kernel::LaunchOp launch, const PaddingAnalysis &padding, int64_t numWarps,
              const ValueSet &staged, int64_t maxSharedBytes);

  const AssignmentProblem &getProblem() const { return problem; }

  // The solution in terms of the launch; the choices are those of getProblem().
  const MatmulModel &getMatmul(MatmulOp op) const;
  thread::WarpGrid getGrid(MatmulOp op, llvm::ArrayRef<size_t> choices) const;
  /// Layout of the group of a tile that is held in registers.
  const thread::LinearLayout &getLayout(mlir::Value value, llvm::ArrayRef<size_t> choices) const;
  bool isGrouped(mlir::Value value) const { return groupOf.count(value); }

private:
  using LayoutFn = std::function<thread::LinearLayout(const thread::LinearLayout &)>;

  void group(mlir::Operation *op);
  void makeGroups();
  void addMatmul(MatmulOp op);
  void addCandidates();
  void shareCandidates();
  void addUnaryCosts();
  void addEdges(mlir::Operation *op);
  void addConversion(mlir::Value from, LayoutFn fromMap, mlir::Value to, LayoutFn toMap,
                     std::function<double(const thread::LinearLayout &)> fromCost, double times);
  void addMatmulEdges(const MatmulModel &matmul, size_t index);
  void addFactor(size_t first, size_t second, llvm::function_ref<double(size_t, size_t)> cost);

  kernel::LaunchOp launch;
  const PaddingAnalysis &padding;
  int64_t numWarps;
  const ValueSet &staged;
  int64_t maxSharedBytes;
  llvm::EquivalenceClasses<mlir::Value> classes;
  llvm::DenseMap<mlir::Value, size_t> groupOf;
  std::vector<LayoutGroup> groups;
  std::vector<MatmulModel> matmuls;
  AssignmentProblem problem;
};

/// Layout after reducing over `dims`.
thread::LinearLayout reduceLayout(thread::LinearLayout layout, llvm::ArrayRef<int64_t> dims);

/// Dimensions along which a tile of shape `from` is repeated to have shape `to`.
llvm::SmallVector<int64_t> getBroadcastDims(llvm::ArrayRef<int64_t> from,
                                            llvm::ArrayRef<int64_t> to);

/// Whether the summands of a value that the warps hold can be added after the
/// loop: it is only accumulated, as a sum.
bool canStayPartial(mlir::Value value);

} // namespace mirage::block

#endif // MIRAGE_DIALECT_BLOCK_ANALYSIS_LAYOUTMODEL_H
