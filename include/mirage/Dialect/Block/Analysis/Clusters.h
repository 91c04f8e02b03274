//===- Clusters.h - blocks that copy tiles for each other -------*- C++ -*-===//

#ifndef MIRAGE_DIALECT_BLOCK_ANALYSIS_CLUSTERS_H
#define MIRAGE_DIALECT_BLOCK_ANALYSIS_CLUSTERS_H

#include "mirage/Dialect/Block/IR/Block.h"
#include "mirage/Dialect/Kernel/IR/Kernel.h"

#include <optional>
#include <string>

namespace mirage::block {

/// The axis of the grid along which the blocks of a cluster of `blocks` share most of the bytes
/// that loops copy, among the axes whose extent `blocks` divides; empty if they share nothing.
/// Without warpgroups, the axis along which blocks exchange totals.
llvm::StringRef getClusterAxis(kernel::LaunchOp launch, int64_t blocks);

/// The reason why blocks of a launch cannot work in clusters of `blocks`; nullopt if they can.
std::optional<std::string> whyNoCluster(kernel::LaunchOp launch, int64_t blocks);

/// The number of blocks that each copy a part of the load's tile for all of them: 1 if each block
/// copies its own.
int64_t getSharers(LoadOp load);

/// The first dimension of a tile with an extent above 1, along which blocks that share the tile cut
/// it.
int64_t getPartDim(TileType tile);

} // namespace mirage::block

#endif // MIRAGE_DIALECT_BLOCK_ANALYSIS_CLUSTERS_H
