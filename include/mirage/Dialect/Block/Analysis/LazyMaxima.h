//===- LazyMaxima.h - running maxima that are followed late -----*- C++ -*-===//
//
// Sums of exp(x - m) are rescaled by exp(m before - m now) when the running maximum m grows, which
// happens at many steps, but only by little. Any number r can replace m, as long as it is not so
// far below that something overflows: the sums are then exp(m - r) times as large. So r is set to m
// only if m exceeds r by more than `slack`; after the loop the sums are rescaled once more, from r
// to m. At most steps r does not change in any row of a warp, and a warp that detects this omits
// the products (`thread.rescale`).
//
// This is possible if each exponential in which m is subtracted enters sums that are rescaled by m,
// once as a factor, and m has no other use except as a result.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_BLOCK_ANALYSIS_LAZYMAXIMA_H
#define MIRAGE_DIALECT_BLOCK_ANALYSIS_LAZYMAXIMA_H

#include "mirage/Dialect/Block/IR/Block.h"

namespace mirage::block {

/// How much a maximum may exceed the number that is used: 8 ln 2. Exponentials are then at most
/// 256, which a sum of f32 and a factor of 16 bits represent as well as those up to 1.
constexpr double lazySlack = 5.545177444479562;

/// How the values of a loop's body depend on exponentials in which a running maximum is subtracted.
class ExponentialDegrees {
public:
  /// The kinds of values: independent of them; the maximum; a difference with it on the right; the
  /// exponential of such a difference; a sum of products in which one exponential is a factor;
  /// anything else.
  enum Kind { Free, Maximum, Difference, Exponential, Linear, Other };

  static bool isLinear(Kind kind) { return kind == Exponential || kind == Linear; }

  /// Visits the body of the loop around `running`.
  explicit ExponentialDegrees(RunningMaxOp running);

  Kind get(mlir::Value value) const;

private:
  Kind compute(mlir::Operation *op) const;

  mlir::Value maximum;
  llvm::DenseMap<mlir::Value, Kind> kinds;
};

/// Whether another number may be used in place of the maximum. Precondition:
/// layouts are assigned.
bool isLazy(RunningMaxOp running);

} // namespace mirage::block

#endif // MIRAGE_DIALECT_BLOCK_ANALYSIS_LAZYMAXIMA_H
