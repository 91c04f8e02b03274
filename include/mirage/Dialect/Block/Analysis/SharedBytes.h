//===- SharedBytes.h - shared memory that a launch needs --------*- C++ -*-===//

#ifndef MIRAGE_DIALECT_BLOCK_ANALYSIS_SHAREDBYTES_H
#define MIRAGE_DIALECT_BLOCK_ANALYSIS_SHAREDBYTES_H

#include "mirage/Dialect/Kernel/IR/Kernel.h"

namespace mirage::block {

/// Bytes of shared memory that a launch with layouts needs, if tiles outside of loops are alive all
/// the time, and loops at top level one after the other. `mirage-plan-shared-memory` places the
/// same buffers by their real lifetimes.
struct SharedBytes {
  /// Tiles outside of loops, and everything that is kept in addition to rings: with warpgroups a
  /// ring has two mbarriers per slot, and loads outside of loops are rings of one slot.
  int64_t outside = 0;
  /// The rings of the loop that needs most, each of min(stages, steps) padded tiles, with the
  /// largest scratch memory of its ops. Blocks that continue with another tile fill all rings while
  /// they store one and exchange values after loops.
  int64_t loops = 0;
  /// The largest scratch memory of an op outside of loops.
  int64_t scratch = 0;

  SharedBytes(kernel::LaunchOp launch, int64_t stages);
};

} // namespace mirage::block

#endif // MIRAGE_DIALECT_BLOCK_ANALYSIS_SHAREDBYTES_H
