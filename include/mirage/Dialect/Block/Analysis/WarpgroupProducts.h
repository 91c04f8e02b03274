//===- WarpgroupProducts.h - launches whose products warpgroups compute -*- C++ -*-===//
//
// With `engine = warpgroup` a loop's tiles are copied by the tensor memory
// accelerator into a ring in shared memory, which one extra warp keeps filled,
// and four warps at a time multiply them from there; left factors may also be computed, and come
// from registers, or through shared memory if all steps read the same factor. This file states the
// requirements on launches, and Boxes.h those on tiles.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_BLOCK_ANALYSIS_WARPGROUPPRODUCTS_H
#define MIRAGE_DIALECT_BLOCK_ANALYSIS_WARPGROUPPRODUCTS_H

#include "mirage/Dialect/Block/Analysis/Boxes.h"
#include "mirage/Dialect/Block/IR/Block.h"
#include "mirage/Dialect/Kernel/IR/Kernel.h"
#include "mirage/Dialect/Thread/IR/Layouts.h"
#include "mirage/Dialect/Thread/IR/Thread.h"
#include "mirage/Target/Chip.h"

#include <optional>
#include <string>

namespace mirage::block {

/// The reason why warpgroups cannot compute the products of a launch with flattened tiles, with
/// `warps` warps in addition to the one that copies; nullopt if they can.
std::optional<std::string> whyNoWarpgroups(kernel::LaunchOp launch, int64_t warps,
                                           const Chip &chip);

/// Whether warps write tiles to rings of the launch themselves, like looked-up rows. Precondition:
/// layouts are assigned, the launch uses warpgroups.
bool hasWrittenTiles(kernel::LaunchOp launch);

/// The load of which a matrix is a view, and the dimension of the tile that is dimension `dim` of
/// the view; nullopt if there is none, or if it has size 1.
std::optional<std::pair<LoadOp, int64_t>> getDimOfLoad(mlir::Value view, int64_t dim);

/// Whether a left factor of warpgroups is computed outside of the product's loop, so that all steps
/// read the same factor.
bool isComputedBefore(mlir::Value factor, MatmulOp matmul);

/// Whether the op writes such a factor to shared memory, where products read it. In registers it
/// would take room all the time; and ptxas 13.0 reuses registers that all steps read for other
/// values unless another factor is in registers at the same time.
bool isKeptFactor(ConvertLayoutOp convert);

/// The tiles that a loop loads or looks up at each step and holds in shared memory.
llvm::SmallVector<mlir::Value> getStagedTiles(LoopOp loop);

} // namespace mirage::block

#endif // MIRAGE_DIALECT_BLOCK_ANALYSIS_WARPGROUPPRODUCTS_H
