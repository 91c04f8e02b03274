//===- WarpgroupProducts.h - launches whose products warpgroups compute -*- C++ -*-===//
//
// With `engine = warpgroup` a loop's tiles are copied by the tensor memory
// accelerator into a ring in shared memory, which one extra warp keeps filled,
// and four warps at a time multiply them from there; left factors may be computed
// too, and come from registers, or through shared memory where all steps read the
// same. Here stands what that asks of a launch, and how
// tensors and warps are cut.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_BLOCK_ANALYSIS_WARPGROUPPRODUCTS_H
#define MIRAGE_DIALECT_BLOCK_ANALYSIS_WARPGROUPPRODUCTS_H

#include "mirage/Dialect/Block/IR/Block.h"
#include "mirage/Dialect/Kernel/IR/Kernel.h"
#include "mirage/Dialect/Thread/IR/Layouts.h"
#include "mirage/Dialect/Thread/IR/Thread.h"
#include "mirage/Target/Chip.h"

#include <optional>
#include <string>

namespace mirage::block {

/// Why warpgroups cannot compute the products of a launch with flattened tiles,
/// with `warps` warps beside the one that copies; nullopt where they can.
std::optional<std::string> whyNoWarpgroups(kernel::LaunchOp launch, int64_t warps,
                                           const Chip &chip);

/// The axis of the grid along which blocks of a cluster of `blocks` share most of what
/// loops copy, among those whose extent `blocks` divides; empty where they share nothing.
llvm::StringRef getClusterAxis(kernel::LaunchOp launch, int64_t blocks);

/// Why blocks of a launch cannot work in clusters of `blocks`; nullopt where they can.
/// Precondition: warpgroups compute its products.
std::optional<std::string> whyNoCluster(kernel::LaunchOp launch, int64_t blocks);

/// How many blocks copy a part each of the load's tile, for all of them: 1 where each
/// block copies its own.
int64_t getSharers(LoadOp load);

/// The first dimension of a tile of more than 1, along which blocks that share it cut it.
int64_t getPartDim(TileType tile);

/// Why blocks of a launch cannot compute several positions of the grid one after
/// the other; nullopt where they can.
std::optional<std::string> whyNotResident(kernel::LaunchOp launch);

/// The shared tile for a load: the largest swizzle that its rows are multiples
/// of, else rows that are padded by 16 bytes against bank conflicts.
thread::SharedType getSharedType(int64_t rows, int64_t cols, mlir::Type elementType);

/// Whether the tensor memory accelerator can copy the load's tile.
bool isBox(LoadOp load);

/// Whether the rows of a looked up tile can be copied to shared memory one by one, by
/// pieces of 16 bytes. The tile's columns lie along the rows.
bool canGatherAsync(GatherOp gather);

/// Whether the tile is of one row of its table, and the tensor memory accelerator can copy it:
/// the matrix of an expert among those of all.
bool isBoxOfRow(GatherOp gather);

/// Whether warpgroups can read a looked up tile from a ring.
bool canFillRing(GatherOp gather);

/// Whether warps write tiles to rings of the launch by themselves, as looked up rows
/// are. Precondition: layouts are assigned, the launch uses warpgroups.
bool hasWrittenTiles(kernel::LaunchOp launch);

/// Whether a left factor of warpgroups is computed outside of the product's loop, so that
/// all steps read the same.
bool isComputedBefore(mlir::Value factor, MatmulOp matmul);

/// Whether the op writes such a factor to shared memory, where products read it. In
/// registers it would take room all along; and ptxas 13.0 gives registers that all
/// steps read to other values unless another factor is in registers beside it.
bool isKeptFactor(ConvertLayoutOp convert);

/// The tiles that a loop loads or looks up at each step and holds in shared memory.
llvm::SmallVector<mlir::Value> getStagedTiles(LoopOp loop);

/// The tensor map that copies the load's tile, one panel of its swizzle at a
/// time. Precondition: layouts are assigned, the launch uses warpgroups.
kernel::TensorMapAttr getTensorMap(LoadOp load);
/// The same of a box of one row of a table.
kernel::TensorMapAttr getTensorMap(GatherOp gather);

/// A result that leaves a launch of warpgroups through shared memory.
struct BoxStore {
  thread::SharedType tile;
  kernel::TensorMapAttr map;
  /// Whether each group of warps stores the rows that it owns, 64 of each part, when it
  /// is done with them: blocks that go on multiply with the other groups meanwhile.
  bool byGroups = false;
};

/// How the tensor memory accelerator stores result `number`; nullopt where the
/// tile is no box, or not all blocks store it. Precondition as above.
std::optional<BoxStore> getBoxStore(StoreOp store, unsigned number);

/// How blocks that go on with another tile store one: part by part, columns of one
/// copy each, through the slots of a buffer of its own in turns. Where threads do
/// not hold a part's columns of their rows, the part is the whole tile.
struct StoreParts {
  thread::SharedType buffer;
  thread::FragmentType part;
  int64_t count;
};
StoreParts getStoreParts(const BoxStore &box, thread::FragmentType whole);

} // namespace mirage::block

#endif // MIRAGE_DIALECT_BLOCK_ANALYSIS_WARPGROUPPRODUCTS_H
