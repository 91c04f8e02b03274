//===- Layouts.h - the layouts that code generation uses --------*- C++ -*-===//
//
// Constructors of layouts. `WarpGrid` says how the warps of a block share a
// matrix product: m * n * k warps, the warp index counting n fastest, then m,
// then k. Extents must be multiples of the products of instruction shape and warp grid: m of 16 *
// grid.m, n of 8 * grid.n, k of the instruction's K times grid.k. Every warp owns a contiguous part
// along each dimension, except where an extent is not a power of two times the instruction: then
// the warps interleave (that is what `repeat` can express). Warps in excess of the instruction
// tiles along a dimension hold copies.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_THREAD_IR_LAYOUTS_H
#define MIRAGE_DIALECT_THREAD_IR_LAYOUTS_H

#include "mirage/Dialect/Thread/IR/LinearLayout.h"
#include "mirage/Target/WarpSharing.h"

namespace mirage::thread {

using mirage::mmaInstructionK;
using mirage::WarpGrid;

/// M x N accumulator of `thread.mma`.
LinearLayout mmaResultLayout(int64_t m, int64_t n, WarpGrid grid);
/// M x K left operand; `elementBytes` 2 or 4. A thread has its elements of `together` instructions
/// side by side along K; any order of K is allowed that is the same for both operands.
LinearLayout mmaLhsLayout(int64_t m, int64_t k, int64_t elementBytes, WarpGrid grid,
                          int64_t together = 1);
/// K x N right operand.
LinearLayout mmaRhsLayout(int64_t k, int64_t n, int64_t elementBytes, WarpGrid grid,
                          int64_t together = 1);

/// M x N accumulator of `thread.wgmma`: m a multiple of 64 * grid.m; the number
/// of warps is 4 * grid.m * grid.n, warps within a warpgroup lowest.
LinearLayout wgmmaResultLayout(int64_t m, int64_t n, WarpGrid grid);
/// M x K left operand of `thread.wgmma` in registers.
LinearLayout wgmmaLhsLayout(int64_t m, int64_t k, WarpGrid grid);

/// For elementwise work and for moving tiles: consecutive threads own
/// consecutive vectors of `vector` elements along columns, rows after that. Surplus threads hold
/// copies.
LinearLayout blockedLayout(int64_t rows, int64_t cols, int64_t vector, int64_t numWarps);

/// The same with `dim` along whole rows (dim = 1) or columns (dim = 0) kept
/// within a thread or warp as far as possible, so that a reduction along `dim`
/// needs no scratch memory when the tile has at least as many rows as warps.
LinearLayout rowLayout(int64_t rows, int64_t cols, int64_t dim, int64_t vector, int64_t numWarps);

/// The same with the warps one after the other along `dim`, so that each warp has one total in each
/// line of a running sum.
LinearLayout scanLayout(int64_t rows, int64_t cols, int64_t dim, int64_t vector, int64_t numWarps);

} // namespace mirage::thread

#endif // MIRAGE_DIALECT_THREAD_IR_LAYOUTS_H
