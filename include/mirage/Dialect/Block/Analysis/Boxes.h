//===- Boxes.h - tiles that the tensor memory accelerator copies *- C++ -*-===//

#ifndef MIRAGE_DIALECT_BLOCK_ANALYSIS_BOXES_H
#define MIRAGE_DIALECT_BLOCK_ANALYSIS_BOXES_H

#include "mirage/Dialect/Block/IR/Block.h"
#include "mirage/Dialect/Kernel/IR/Kernel.h"
#include "mirage/Dialect/Thread/IR/Thread.h"

#include <optional>
#include <string>

namespace mirage::block {

/// The shared tile for a load: with the largest swizzle of which its rows are multiples, or
/// otherwise with rows without a pad.
thread::SharedType getSharedType(int64_t rows, int64_t cols, mlir::Type elementType);

/// The reason why a tile of a tensor is not a box that the tensor memory accelerator copies;
/// nullopt if it is one.
std::optional<std::string> whyNoBox(mlir::RankedTensorType tensor, TileType tile);

/// The same for a load's tile, which may also be a shifted box (ShiftedBoxes.h).
std::optional<std::string> whyNoBox(LoadOp load);

/// Whether the tensor memory accelerator can copy the load's tile.
bool isBox(LoadOp load);

/// Whether the rows of a looked-up tile can be copied to shared memory one by one, in pieces of 16
/// bytes. The tile's columns run along the rows.
bool canGatherAsync(GatherOp gather);

/// Whether the tile is a part of one row of its table, and the tensor memory accelerator can copy
/// it: for example, the matrix of one of several experts.
bool isBoxOfRow(GatherOp gather);

/// Whether warpgroups can read a looked up tile from a ring.
bool canFillRing(GatherOp gather);

/// Whether only products that round a tile to TF32 read it and its views.
bool onlyFeedsTf32(mlir::Value value);

/// The tensor map that copies the load's tile, one panel of its swizzle at a
/// time. Precondition: layouts are assigned, the launch uses warpgroups.
kernel::TensorMapAttr getTensorMap(LoadOp load);
/// The same for a box of one row of a table.
kernel::TensorMapAttr getTensorMap(GatherOp gather);

/// A result that leaves a launch of warpgroups through shared memory.
struct BoxStore {
  thread::SharedType tile;
  kernel::TensorMapAttr map;
  /// Whether each group of warps stores the rows that it owns, 64 of each part, when they are
  /// complete: in blocks that continue, the other groups multiply meanwhile.
  bool byGroups = false;
};

/// How the tensor memory accelerator stores result `number`; nullopt if the tile is not a box, or
/// if not all blocks store it. Precondition as above.
std::optional<BoxStore> getBoxStore(StoreOp store, unsigned number);

/// How blocks that continue with another tile store one: part by part, each with the columns of one
/// copy, alternately through the slots of a separate buffer. If threads do not hold a part's
/// columns of their rows, the part is the whole tile.
struct StoreParts {
  thread::SharedType buffer;
  thread::FragmentType part;
  int64_t count;
};
StoreParts getStoreParts(const BoxStore &box, thread::FragmentType whole);

} // namespace mirage::block

#endif // MIRAGE_DIALECT_BLOCK_ANALYSIS_BOXES_H
