//===- OverlappingTiles.h - last tiles that begin earlier -------*- C++ -*-===//
//
// If tiles do not divide a tensor, the last one either extends beyond its end, or begins earlier
// and overlaps the previous one: two blocks then compute the same rows. Copies of the tensor memory
// accelerator take longer for rows beyond the end than for others (a product of 65 rows in tiles of
// 64 takes 1.7 times as long as one of 128 with the same code), so launches of warpgroups let the
// last tile begin earlier if each row of the results is a function of the same row of the loaded
// tensors.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_BLOCK_ANALYSIS_OVERLAPPINGTILES_H
#define MIRAGE_DIALECT_BLOCK_ANALYSIS_OVERLAPPINGTILES_H

#include "mirage/Dialect/Kernel/IR/Kernel.h"

namespace mirage::block {

/// Whether the last tile along an axis of the grid may begin earlier, so that it ends with the
/// tensors. Tiles may have any rank.
bool lastTileMayOverlap(kernel::LaunchOp launch, llvm::StringRef axis);

/// Whether two blocks of the launch compute the same rows, because a last tile begins earlier.
bool computesRowsTwice(kernel::LaunchOp launch);

} // namespace mirage::block

#endif // MIRAGE_DIALECT_BLOCK_ANALYSIS_OVERLAPPINGTILES_H
