//===- SpeculatedMaxima.h - exponentials before their maximum ---*- C++ -*-===//
//
// In attention, the exponentials of a step wait for the maximum of its scores, and
// warps have little else to do meanwhile. Any number r serves in place of the
// maximum m as long as nothing overflows: a loop's sums are then exp(m - r) times as large, and a
// result that is a quotient of them is the same. So a step uses the r of the previous step at once,
// and checks the row sums of its exponentials, which it computes anyway. All exponentials of a row
// are at most their sum. If a sum exceeds `speculationLimit`, or is NaN, the step is repeated with
// the maximum, to which r is then set. Maxima hardly change after the first steps, so few steps are
// repeated.
//
// The number after the loop is not the maximum. If results of the kernel depend on the number, the
// maximum is computed in addition to the exponentials, which do not wait for it, and the sums are
// rescaled from r to m after the loop. If none does, the maximum is left out: each value after the
// loop has a degree, the power of exp(m - r) by which it is multiplied, and all stored values have
// degree 0.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_BLOCK_ANALYSIS_SPECULATEDMAXIMA_H
#define MIRAGE_DIALECT_BLOCK_ANALYSIS_SPECULATEDMAXIMA_H

#include "mirage/Dialect/Block/IR/Block.h"

#include <optional>

namespace mirage::block {

/// The largest sum of a row's exponentials: f16 represents each of them.
constexpr double speculationLimit = 8192;

/// On loops whose steps take their exponentials before the maximum is known.
constexpr llvm::StringLiteral kSpeculates = "block.speculates";

/// A step that does not need its maximum at first.
struct SpeculatedStep {
  RunningMaxOp running;
  /// The ops that compute only the maximum, and its users, each in order.
  llvm::SmallVector<mlir::Operation *> maximum, uses;
  /// The scores, which both of them read.
  mlir::Value scores;
  /// The row sums that determine whether the step is repeated.
  mlir::Value sums;
  /// Whether results depend on the number.
  bool needsMaximum = false;
};

/// Whether warps execute the op together, so that none can execute it alone. Precondition: layouts
/// are assigned.
bool needsOtherWarps(mlir::Operation *op);

/// How the loop's steps can be executed in this way, if they can. Precondition: layouts are
/// assigned, and the loop's last products are deferred or can be.
std::optional<SpeculatedStep> getSpeculatedStep(LoopOp loop);

} // namespace mirage::block

#endif // MIRAGE_DIALECT_BLOCK_ANALYSIS_SPECULATEDMAXIMA_H
