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

#ifndef MIRAGE_LIB_CONVERSION_BLOCKTOTHREAD_LAZYMAXIMA_H
#define MIRAGE_LIB_CONVERSION_BLOCKTOTHREAD_LAZYMAXIMA_H

#include "mirage/Dialect/Block/IR/Block.h"

namespace mirage {

/// By how much a maximum may be beyond the number that is used: 8 ln 2. Exponentials
/// are at most 256 then, which a sum of f32 and a factor of 16 bits hold as well as
/// those up to 1.
constexpr double lazySlack = 5.545177444479562;

/// Whether another number may be used in the place of the maximum.
bool isLazy(block::RunningMaxOp running);

} // namespace mirage

#endif // MIRAGE_LIB_CONVERSION_BLOCKTOTHREAD_LAZYMAXIMA_H
