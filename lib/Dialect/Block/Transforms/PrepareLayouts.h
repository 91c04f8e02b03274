//===- PrepareLayouts.h - before layouts are assigned -----------*- C++ -*-===//

#ifndef MIRAGE_LIB_DIALECT_BLOCK_TRANSFORMS_PREPARELAYOUTS_H
#define MIRAGE_LIB_DIALECT_BLOCK_TRANSFORMS_PREPARELAYOUTS_H

#include "mirage/Dialect/Block/Analysis/HeldTile.h"
#include "mirage/Target/Chip.h"

namespace mirage::block {

/// The loads whose tiles go through shared memory, with the views (reshape,
/// transpose) of their tiles.
ValueSet findStaged(kernel::LaunchOp launch, const Chip &chip);

/// Makes explicit where tiles change place or layout, as `convert_layout`s that
/// change nothing yet.
void prepareLayouts(kernel::LaunchOp launch, int64_t numWarps, const Chip &chip);

} // namespace mirage::block

#endif // MIRAGE_LIB_DIALECT_BLOCK_TRANSFORMS_PREPARELAYOUTS_H
