//===- ProductPhases.h - the order of a loop's products ---------*- C++ -*-===//
//
// Products of warpgroups run in parallel with the warps that start them. A step of a loop whose
// products depend on each other has phases:
//
//   phase 0   what products of the step do not matter to
//   phase p   products whose factors are there after phase p - 1, started
//             together; then what depends on them
//
// What does not depend on products is computed as late as it is needed, so that
// it takes no registers before; in a scheduled loop (LoopSchedule.h) in its place.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_BLOCK_ANALYSIS_PRODUCTPHASES_H
#define MIRAGE_DIALECT_BLOCK_ANALYSIS_PRODUCTPHASES_H

#include "mirage/Dialect/Block/IR/Block.h"

#include <optional>
#include <string>

namespace mirage::block {

/// Loads and lookups whose tiles are needed and released at the same time: one ring.
struct RingLoads {
  llvm::SmallVector<mlir::Operation *> loads;
  /// The phases that read them first and last.
  int64_t first = 0, last = 0;
  /// Whether products read them, and whether other ops do.
  bool byProducts = false, byOps = false;
};

class ProductPhases {
public:
  /// Precondition: layouts are assigned, the launch uses warpgroups.
  explicit ProductPhases(LoopOp loop);

  /// The last phase.
  int64_t getCount() const { return products.size(); }
  /// Products of a phase, which is at least 1.
  llvm::ArrayRef<MatmulOp> getProducts(int64_t phase) const { return products[phase - 1]; }
  /// The phase in which an op of the body is computed.
  int64_t getPhase(mlir::Operation *op) const { return phases.lookup(op); }
  /// Whether the op, in a scheduled loop, is placed between products of its phase and the first op
  /// that depends on them.
  bool isBesideProducts(mlir::Operation *op) const { return beside.contains(op); }
  /// By first phase.
  llvm::ArrayRef<RingLoads> getRings() const { return rings; }

  /// Whether products of the last phase are computed during the next step.
  bool isDeferred() const;
  /// The reason why they cannot be; nullopt if they can.
  std::optional<std::string> whyNotDeferred();
  /// Factors in registers of the last phase's products, each once.
  llvm::SmallVector<mlir::Value> getHeldFactors() const;

private:
  void findPhases();
  void placeFreeOps();
  void findRings();

  LoopOp loop;
  llvm::DenseMap<mlir::Operation *, int64_t> phases;
  llvm::SmallVector<llvm::SmallVector<MatmulOp>> products;
  llvm::SmallVector<RingLoads> rings;
  llvm::DenseSet<mlir::Operation *> beside;
};

/// On loops with deferred products: groups of warps take turns in starting them, so that one group
/// computes while the tensor cores work for another.
constexpr llvm::StringLiteral kTurns = "block.turns";

/// Whether a product of warpgroups is computed from zero at each step, waited for,
/// and added to the loop's sum in f32: one of 8-bit factors, whose sums have about
/// 14 bits in the hardware.
bool isPromoted(MatmulOp matmul);

/// The running maximum that rescales the sum of a product, or null.
mlir::Value getRescale(MatmulOp matmul);

/// Whether only sums of its loop use a product, so that it may stay in flight.
bool isOnlySummed(MatmulOp matmul);

} // namespace mirage::block

#endif // MIRAGE_DIALECT_BLOCK_ANALYSIS_PRODUCTPHASES_H
