//===- SpeculatedMaxima.h - exponentials before their maximum ---*- C++ -*-===//
//
// In attention, the exponentials of a step wait for the maximum of its scores, and
// warps have little else to do meanwhile. Any number r serves in place of the
// maximum m as long as nothing overflows: a loop's sums are exp(m - r) times as large
// then, and a result that is a quotient of them is the same. So a step takes the r of
// the step before at once, and looks at the row sums of its exponentials, which it
// computes anyway. All exponentials of a row are at most their sum. Where a sum is
// beyond `speculationLimit`, or no number, the step is done again, with the maximum,
// to which r is moved. Maxima hardly move after the first steps, so that few steps
// are done twice.
//
// The number after the loop is not the maximum. Where results of the kernel depend on
// which number it is, the maximum is computed beside the exponentials, which do not wait
// for it, and the sums are rescaled from r to m after the loop. Where none does, the
// maximum is left out: each value behind the loop has a degree, the power of exp(m - r)
// that it is multiplied by, and all that is stored has degree 0.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_BLOCK_ANALYSIS_SPECULATEDMAXIMA_H
#define MIRAGE_DIALECT_BLOCK_ANALYSIS_SPECULATEDMAXIMA_H

#include "mirage/Dialect/Block/IR/Block.h"

#include <optional>

namespace mirage::block {

/// What a row's exponentials may sum up to: f16 holds each of them.
constexpr double speculationLimit = 8192;

/// On loops whose steps take their exponentials before the maximum is known.
constexpr llvm::StringLiteral kSpeculates = "block.speculates";

/// A step that need not know its maximum at first.
struct SpeculatedStep {
  RunningMaxOp running;
  /// What only the maximum is made of, and what it is used for, each in order.
  llvm::SmallVector<mlir::Operation *> maximum, uses;
  /// The scores: what both of them read.
  mlir::Value scores;
  /// The row sums that say whether the step is done again.
  mlir::Value sums;
  /// Whether results depend on the number.
  bool needsMaximum = false;
};

/// Whether warps do the op together, so that none can do it alone. Precondition: layouts
/// are assigned.
bool needsOtherWarps(mlir::Operation *op);

/// How the loop's steps can be done so, if they can. Precondition: layouts are
/// assigned, and the loop's last products are deferred or can be.
std::optional<SpeculatedStep> getSpeculatedStep(LoopOp loop);

} // namespace mirage::block

#endif // MIRAGE_DIALECT_BLOCK_ANALYSIS_SPECULATEDMAXIMA_H
