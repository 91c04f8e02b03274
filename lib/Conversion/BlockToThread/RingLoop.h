//===- RingLoop.h - loops of warpgroups over rings --------------*- C++ -*-===//
//
// A step goes through its phases (ProductPhases.h):
//
//   for each phase:
//     wait for the slots that its products read; start the products
//     wait for the products; release the slots that they read last
//     compute what depends on them
//
// Products of the last phase that are only summed are waited for in the next
// step, after its first products have been started, so that the tensor cores
// always have work. If they are deferred, they are also started there:
//
//   step 0 without its last products
//   for step j = 1..:
//     start the first products of step j, then the last ones of step j - 1
//     wait for the former, compute, wait for the latter
//     factors for the next step, sums rescaled
//   the last products of the last step
//
// If the only products of a step are deferred, their factors are computed in registers: they start
// at the end of a step, and the warps wait for them before they write the next step's factors.
//
// In such loops, groups of warps can take turns in starting products: while one
// computes, the tensor cores work for the other. Otherwise all would compute at
// the same time. A turn passes cyclically from group to group, as soon as a
// group has its maxima. If a group passed it as soon as its products are
// started, the tensor cores would work for both groups at once, and then both
// would wait for their exponentials.
//
// Steps are counted from the first one that the block takes, like the slots.
// There is at least one, so that the first and the last one exist.
//
// Factors in registers and sums must not be written while products use them.
// Values that must be computed before or after a wait are passed through it.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_LIB_CONVERSION_BLOCKTOTHREAD_RINGLOOP_H
#define MIRAGE_LIB_CONVERSION_BLOCKTOTHREAD_RINGLOOP_H

#include "TileEmitter.h"

#include "mirage/Dialect/Block/Analysis/ProductPhases.h"
#include "mirage/Dialect/Block/Analysis/SpeculatedMaxima.h"

namespace mirage {

class RingLoop {
public:
  RingLoop(TileEmitter &tiles, block::LoopOp op);
  void emit();

private:
  /// Products that were started together, and the slots to release after them.
  struct Group {
    llvm::SmallVector<block::MatmulOp> products;
    llvm::SmallVector<mlir::Value> rings;
    mlir::Value step;
    /// Of the step before `step`, if there is one.
    bool isPrevious = false;
    /// Further products have been started on the sums.
    bool isContinued = false;
  };

  // The values that one step carries to the next.
  llvm::SmallVector<mlir::Value> getInitial();
  void setCarried(mlir::ValueRange values);
  llvm::SmallVector<mlir::Value> getCarried();

  void emitPlainLoop(llvm::SmallVector<mlir::Value> carried);
  void emitDeferredLoop(llvm::SmallVector<mlir::Value> carried);

  void enterStep(mlir::Value step);
  void emitFactors(mlir::Value step);
  void emitBesideProducts(int64_t phase, mlir::Value step);
  void emitPhases(int64_t first, int64_t last, mlir::Value step);
  void emitOps(int64_t phase, mlir::Value step);
  void emitFirstOps(mlir::Value step, bool speculates);

  // Steps that take exponentials before their maximum (SpeculatedStep.cpp).
  void emitSpeculated();
  mlir::Value emitMaximumApart();
  void emitUses();
  llvm::SmallVector<mlir::Value> getSpeculated() const;

  void emitLate();
  void endStep(mlir::Value step);
  bool isComputed(mlir::Operation *inner, int64_t phase) const;
  void waitForRead(int64_t phase, mlir::Value step);
  void waitForReads(int64_t phase, mlir::Value step);
  bool hasBesideProducts(int64_t phase);
  void releaseRead(int64_t phase, mlir::Value step);

  void takeTurn(mlir::Value step);
  void passTurn();
  bool passesLate();
  void finishDeferred();

  // Slots, and the products that read them (RingSlots.cpp).
  void waitForSlots(int64_t phase, mlir::Value step);
  void waitForSlot(const block::RingLoads &loads, mlir::Value ring, mlir::Value step);
  void start(int64_t phase, mlir::Value step);
  void finish(size_t count, llvm::ArrayRef<mlir::Value> passed = {});
  void release(mlir::Value ring, mlir::Value step, bool isPrevious = false);
  /// Whether the op only views tiles of rings, or loads them.
  bool isView(mlir::Operation *op) const;

  void findLate();
  bool readsRing(mlir::Operation *inner) const;
  llvm::SmallVector<mlir::Value> getLateOperands();
  mlir::Value getSum(block::MatmulOp product);

  TileEmitter &tiles;
  mlir::OpBuilder &builder;
  block::LoopOp op;
  block::AccumulateOp accumulate;
  block::ProductPhases phases;
  llvm::SmallVector<mlir::Value> rings;
  llvm::SmallVector<block::RunningMaxOp> maxima;
  bool deferred, overlaps;
  /// The only products of a step run while the next one's factors are computed.
  bool factorsOverlap = false;
  std::optional<block::SpeculatedStep> speculation;
  LoopSteps steps;
  /// Ops that make factors of deferred products out of f32 values, which are
  /// computed once the products that use the last step's factors are done.
  llvm::SmallVector<mlir::Operation *> late;
  llvm::SmallVector<Group> underWay;
};

} // namespace mirage

#endif // MIRAGE_LIB_CONVERSION_BLOCKTOTHREAD_RINGLOOP_H
