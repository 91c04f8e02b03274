//===- MaskGuards.h - masks that most steps do not need ---------*- C++ -*-===//
//
// A mask that is computed from positions (the triangle of causal attention, the
// end of a tensor that tiles overhang) does nothing to most of the tiles of a
// loop: the truth value is the same for all of their elements, and adding the
// mask, or selecting by it, does not change the other operand. Which tiles
// these are follows from the least and the greatest position in a tile, which a
// block knows at each step:
//
//   if (greatest key of the tile <= least row of the tile)
//     the scores
//   else
//     the scores + bias(keys <= rows)
//
// Only the branch is added to a step without a mask; the ops that make the mask
// move into the other branch. One branch skips all of several consecutive
// masks. The condition is the same for all threads.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_LIB_CONVERSION_BLOCKTOTHREAD_MASKGUARDS_H
#define MIRAGE_LIB_CONVERSION_BLOCKTOTHREAD_MASKGUARDS_H

#include "mirage/Dialect/Kernel/IR/Kernel.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <optional>

namespace mirage {

/// An op whose result is one of its operands where its mask does nothing.
struct MaskGuard {
  /// The number of that operand, and of the mask; none for a `block.mask`.
  unsigned kept = 0;
  std::optional<unsigned> mask;
  /// The ops that compute only the mask, in order.
  llvm::SmallVector<mlir::Operation *> sunk;
  /// The op that makes the kept operand, if it has a guard and no other use.
  mlir::Operation *before = nullptr;
};

/// The guards of a launch, in loops. Precondition: layouts are assigned.
class MaskGuards {
public:
  explicit MaskGuards(kernel::LaunchOp launch);

  /// Null if the op has none.
  const MaskGuard *lookup(mlir::Operation *op) const;
  /// Whether the op is computed where it is needed.
  bool isSunk(mlir::Operation *op) const { return sunk.contains(op); }

private:
  llvm::DenseMap<mlir::Operation *, MaskGuard> guards;
  llvm::DenseSet<mlir::Operation *> sunk;
};

} // namespace mirage

#endif // MIRAGE_LIB_CONVERSION_BLOCKTOTHREAD_MASKGUARDS_H
