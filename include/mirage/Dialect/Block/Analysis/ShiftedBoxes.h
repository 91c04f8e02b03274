//===- ShiftedBoxes.h - boxes of rows that start at any element -*- C++ -*-===//
//
// The tensor memory accelerator copies boxes that start at multiples of 16 bytes. In a dense tensor
// of G x 8 x K elements of 2 bytes, all rows with the same number along the second dimension have
// the same offset from such a multiple, for any K, and its rows of 8 * K elements start at
// multiples. A block that has rows of one number may therefore begin at the multiple before each
// row: its loop over K is shifted back by the elements in between, less than 16 bytes. The loop's
// other tiles are shifted as well. They are boxes that run along K in a dimension other than the
// last, where they may start anywhere. The order in which a sum takes its products does not matter.
//
// Beyond the ends of its rows the shifted box has elements of other rows, which readers
// overwrite with zeros, and the other tiles have zeros.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_BLOCK_ANALYSIS_SHIFTEDBOXES_H
#define MIRAGE_DIALECT_BLOCK_ANALYSIS_SHIFTEDBOXES_H

#include "mirage/Dialect/Block/IR/Block.h"
#include "mirage/Dialect/Kernel/IR/Kernel.h"

namespace mirage::block {

/// How many of the last dimensions of a dense tensor form rows that start at multiples of 16 bytes,
/// if the tile has one position along all of these except the last; 0 if there are none.
int64_t getJoinedDims(mlir::RankedTensorType tensor, TileType tile);

/// The load of a loop whose tile is copied as a shifted box, or null.
LoadOp getShiftedLoad(LoopOp loop);

/// Whether this is such a load.
bool isShifted(LoadOp load);

/// The dimension of the load's tensor that the loop's axis cuts, or nothing.
std::optional<int64_t> getDimAlong(LoadOp load, llvm::StringRef axis);

} // namespace mirage::block

#endif // MIRAGE_DIALECT_BLOCK_ANALYSIS_SHIFTEDBOXES_H
