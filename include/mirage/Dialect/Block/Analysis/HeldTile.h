//===- HeldTile.h - where and how a tile is held ----------------*- C++ -*-===//
//
// After layout assignment the `layout` of a tile's type is a type attribute:
// the `!thread.fragment` or `!thread.shared` that holds the tile. It can have
// more rows and columns than the tile (padding).
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_BLOCK_ANALYSIS_HELDTILE_H
#define MIRAGE_DIALECT_BLOCK_ANALYSIS_HELDTILE_H

#include "mirage/Dialect/Block/IR/Block.h"
#include "mirage/Dialect/Kernel/IR/Kernel.h"
#include "mirage/Dialect/Thread/IR/Thread.h"

#include "llvm/ADT/SetVector.h"

namespace mirage::block {

/// Values in the order in which they were found.
using ValueSet = llvm::SetVector<mlir::Value>;

inline TileType getTile(mlir::Value value) { return llvm::cast<TileType>(value.getType()); }

/// The type that holds the tile, or null before layouts are assigned.
inline mlir::Type getHolder(TileType tile) {
  auto attr = llvm::dyn_cast_or_null<mlir::TypeAttr>(tile.getLayout());
  return attr ? attr.getValue() : mlir::Type();
}

inline TileType withHolder(TileType tile, mlir::Type holder) {
  return tile.withLayout(mlir::TypeAttr::get(holder));
}

/// The fragment that holds the value, or null.
inline thread::FragmentType getFragment(mlir::Value value) {
  return llvm::dyn_cast_or_null<thread::FragmentType>(getHolder(getTile(value)));
}

/// The shared tile that holds the value, or null.
inline thread::SharedType getShared(mlir::Value value) {
  return llvm::dyn_cast_or_null<thread::SharedType>(getHolder(getTile(value)));
}

/// A scalar constant (rank 0), which is not held anywhere.
inline bool isScalar(mlir::Value value) { return value.getDefiningOp<ConstantOp>() != nullptr; }

/// Whether the op computes each element of a tile from the operands' elements at its index; with
/// `repeats`, ops that only repeat elements count too.
inline bool isElementwise(mlir::Operation *op, bool repeats = true) {
  auto tile = llvm::dyn_cast<TileOpInterface>(op);
  return tile && tile.isElementwise() && (repeats || tile.getElementWork() > 0);
}

/// The value without the reshape next to a load or a store.
inline mlir::Value stripReshape(mlir::Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getInput();
  return value;
}

/// Whether the reshape, which mirage-flatten-tiles inserts after loads, turns a loaded or gathered
/// tile into a matrix (before the store, a reshape restores the rank of a tensor, which is not 2).
bool isMatrixOf(ReshapeOp reshape, mlir::Value loaded);

/// The loaded or gathered tile as a matrix: the reshape after it, or the tile itself.
mlir::Value getMatrix(mlir::Value loaded);

/// Whether layouts are assigned; reports the first tile without one.
llvm::LogicalResult checkLayouts(kernel::LaunchOp launch);

/// How often an op in `block` runs in one thread block: the product of the
/// extents of the loops around.
int64_t getTripCount(mlir::Block *block);

} // namespace mirage::block

#endif // MIRAGE_DIALECT_BLOCK_ANALYSIS_HELDTILE_H
