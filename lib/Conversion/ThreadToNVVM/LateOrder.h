//===- LateOrder.h - ops where their results are needed ---------*- C++ -*-===//
//
// Arithmetic of a block is executed where its results are needed, one element after the other, and
// what is needed only behind the last barrier is loaded there, a few words ahead of its use. So
// few values are alive at a time.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_LIB_CONVERSION_THREADTONVVM_LATEORDER_H
#define MIRAGE_LIB_CONVERSION_THREADTONVVM_LATEORDER_H

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace mirage {

/// The fewest and the most registers of what is loaded ahead of its use.
inline constexpr int64_t kFewestAhead = 4, kMostAhead = 32;

/// Whether the op is scalar arithmetic that may be executed again and anywhere.
bool isScalarArithmetic(mlir::Operation *op);

/// The registers of a vector or an f32 value; 0 for other values.
int64_t countWords(mlir::Value value);

/// The order of the ops of a kernel's block in which everything is as late as possible.
class LateOrder {
public:
  explicit LateOrder(mlir::Block &block) : block(block) {}

  /// Finds the loads from tensors that the kernel only reads whose elements are needed only behind
  /// `barrier`. These tensors, and those that are written, lose the attribute `llvm.noalias`:
  /// otherwise compilers would move all of these loads before the first store.
  void findLate(mlir::Operation *barrier);

  bool isLate(mlir::Operation *op) const { return places.contains(op); }
  bool hasLate() const { return !late.empty(); }

  /// Moves all arithmetic and the late loads. They come before they are needed, with `ahead`
  /// registers or less in flight; with `kMostAhead`, the first ones come before the barrier.
  /// Arithmetic whose results nobody needs goes.
  void apply(int64_t ahead);

private:
  using Ops = llvm::DenseSet<mlir::Operation *>;

  size_t getEarliest(mlir::Operation *op) const;
  bool isMovable(mlir::Operation *op) const;
  void list(mlir::Value value, Ops &seen);
  void moveBefore(mlir::Value value, mlir::Operation *place);
  void moveLate(size_t first, mlir::Operation *place);
  void moveAlone(mlir::Operation *op, mlir::Operation *place);
  void keepOrderOfAccesses();

  mlir::Block &block;
  /// The late loads, in the order in which they are needed, and the place of each.
  llvm::SmallVector<mlir::Operation *> late;
  llvm::DenseMap<mlir::Operation *, size_t> places;
  /// The original place of each op, and of the op behind which a late load may be.
  llvm::DenseMap<mlir::Operation *, size_t> numbers, earliest;
  mlir::Operation *last = nullptr;
  Ops waiting;
  int64_t ahead = kFewestAhead;
};

} // namespace mirage

#endif // MIRAGE_LIB_CONVERSION_THREADTONVVM_LATEORDER_H
