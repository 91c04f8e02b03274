//===- LayoutCosts.h - what layouts cost ------------------------*- C++ -*-===//
//
// Estimates in instructions of one warp. They only need to rank choices.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_BLOCK_ANALYSIS_LAYOUTCOSTS_H
#define MIRAGE_DIALECT_BLOCK_ANALYSIS_LAYOUTCOSTS_H

#include "mirage/Dialect/Thread/IR/LinearLayout.h"
#include "mirage/Target/WarpSharing.h"

namespace mirage::block {

/// Change of layout of a tile.
double getConversionCost(const thread::LinearLayout &from, const thread::LinearLayout &to);

/// Sum of the summands that warps hold of a tile, in a layout whose zero warp vectors mean
/// summands: each thread adds the elements that it owns in `to`.
double getWarpSumCost(const thread::LinearLayout &from, const thread::LinearLayout &to);

/// Reduction along `dim`; `partial` leaves out the exchange between warps.
double getReductionCost(const thread::LinearLayout &from, int64_t dim, bool partial);

/// Running sums or maxima along `dim`.
double getCumulationCost(const thread::LinearLayout &layout, int64_t dim);

/// The cost of sorting elements along `dim`.
double getSortingCost(const thread::LinearLayout &layout, int64_t dim);

/// Loads or stores of a row-major tile (`contiguousDim` = 1) or a column-major
/// one (0) in global memory: instructions, and sectors of 32 bytes that they
/// touch. No access is wider than `aligned` elements.
double getGlobalAccessCost(const thread::LinearLayout &layout, int64_t elementBytes,
                           int64_t contiguousDim, int64_t aligned);

/// Loads or stores of single elements of a tile whose rows, and columns, are so many elements apart
/// in global memory.
double getStridedAccessCost(const thread::LinearLayout &layout, int64_t elementBytes,
                            std::array<int64_t, 2> steps);

/// The additional cost of loads if each brings less than 32 bits although vectors are possible.
double getNarrowLoadCost(const thread::LinearLayout &layout, int64_t elementBytes,
                         int64_t contiguousDim, int64_t aligned);

/// Loads from a shared tile that is row-major.
double getSharedAccessCost(const thread::LinearLayout &layout, int64_t elementBytes);

/// The cost of the 32-bit registers of a tile in one thread that exceed a comfortable number.
double getSpillCost(const thread::LinearLayout &layout, int64_t elementBytes);

} // namespace mirage::block

#endif // MIRAGE_DIALECT_BLOCK_ANALYSIS_LAYOUTCOSTS_H
