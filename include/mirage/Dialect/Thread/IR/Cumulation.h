//===- Cumulation.h - the steps of sums so far ------------------*- C++ -*-===//
//
// The elements before an element along a dimension are found bit by bit of its position: for each
// bit that is set, they include the part of the tile in which this bit is not set. So the bits are
// processed from the lowest to the highest, and each of them is a bit of the register, of the lane
// or of the warp (W. D. Hillis, G. L. Steele, Data parallel algorithms, 1986).
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_THREAD_IR_CUMULATION_H
#define MIRAGE_DIALECT_THREAD_IR_CUMULATION_H

#include "mirage/Dialect/Thread/IR/LinearLayout.h"

namespace mirage::thread {

/// One bit of the positions along a dimension, or several of neighbouring significance that are all
/// bits of the warp: those are one exchange.
struct CumulationStep {
  enum Kind { Registers, Lanes, Warps } kind;
  /// The bit of the lane index, for lanes.
  int64_t bit;
  /// Elements along the dimension whose totals are known before and after the step.
  int64_t before, after;

  /// Totals that the step exchanges through shared memory.
  int64_t countTotals(const LinearLayout &layout, int64_t dim) const;
};

/// The steps along `dim` within the linear part of the layout.
llvm::SmallVector<CumulationStep> planCumulation(const LinearLayout &layout, int64_t dim);

/// The most totals that a step exchanges through shared memory.
int64_t countExchangedTotals(const LinearLayout &layout, int64_t dim);

} // namespace mirage::thread

#endif // MIRAGE_DIALECT_THREAD_IR_CUMULATION_H
