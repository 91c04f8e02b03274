//===- LazyMaxima.h - running maxima that are followed late -----*- C++ -*-===//
//
// Sums of exp(x - m) are rescaled by exp(m before - m now) where the running
// maximum m grows, which it does at many steps, by little. Any number r serves in
// the place of m, as long as it is not so far below that something overflows: all
// that the sums hold is then exp(m - r) times as large. So r is moved to m where m
// is beyond r by more than `slack`, and stays else; after the loop the sums are
// rescaled once more, from r to m. At most steps no row of a warp has moved, and a
// warp that finds that out leaves out the products (`thread.rescale`).
//
// That is so where each exponential which m is subtracted in enters sums that are
// rescaled by m, once as a factor, and m is used for nothing else but as a result.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_BLOCK_ANALYSIS_LAZYMAXIMA_H
#define MIRAGE_DIALECT_BLOCK_ANALYSIS_LAZYMAXIMA_H

#include "mirage/Dialect/Block/IR/Block.h"

namespace mirage::block {

/// By how much a maximum may be beyond the number that is used: 8 ln 2. Exponentials
/// are at most 256 then, which a sum of f32 and a factor of 16 bits hold as well as
/// those up to 1.
constexpr double lazySlack = 5.545177444479562;

/// How the values of a loop's body are made of exponentials that a running maximum is
/// subtracted in.
class ExponentialDegrees {
public:
  /// What a value is: made of none of them; the maximum; a difference with it on the
  /// right; the exponential of one; a sum of products in which one exponential is a
  /// factor; anything else.
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
