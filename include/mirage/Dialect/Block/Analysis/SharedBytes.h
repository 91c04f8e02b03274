//===- SharedBytes.h - shared memory that a launch needs --------*- C++ -*-===//

#ifndef MIRAGE_DIALECT_BLOCK_ANALYSIS_SHAREDBYTES_H
#define MIRAGE_DIALECT_BLOCK_ANALYSIS_SHAREDBYTES_H

#include "mirage/Dialect/Kernel/IR/Kernel.h"

namespace mirage::block {

/// Bytes of shared memory that a launch with layouts needs, where tiles outside of
/// loops are alive all the time, and loops at top level one after the other.
/// `mirage-plan-shared-memory` places the same buffers by their real lifetimes.
struct SharedBytes {
  /// Tiles outside of loops, and what stays beside rings: with warpgroups a ring has two
  /// mbarriers a slot, and loads outside of loops are rings of one slot.
  int64_t outside = 0;
  /// The rings of the loop that needs most, each of min(stages, steps) padded tiles, with the
  /// largest scratch memory of its ops. Blocks that go on with another tile fill all rings
  /// while they store one and exchange values behind loops.
  int64_t loops = 0;
  /// The largest scratch memory of an op outside of loops.
  int64_t scratch = 0;

  SharedBytes(kernel::LaunchOp launch, int64_t stages);
};

} // namespace mirage::block

#endif // MIRAGE_DIALECT_BLOCK_ANALYSIS_SHAREDBYTES_H
