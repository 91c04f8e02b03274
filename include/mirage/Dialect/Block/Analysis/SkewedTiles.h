//===- SkewedTiles.h - tiles whose rows start at odd elements ---*- C++ -*-===//
//
// Rows of an odd number of 2-byte elements may start at odd elements, where no asynchronous copy
// can begin. Such a tile may preserve the offset of each row from a multiple of 16 bytes in shared
// memory, through the pad of its rows. Whole lines of 16 bytes are then copied like those of other
// tiles, ahead of the loop; in exchange, a pair of elements is read as two words if its row starts
// at an odd element. Products that contract along the rows read pairs along them; others would read
// single elements, and keep tiles of aligned rows, which are filled through registers.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_BLOCK_ANALYSIS_SKEWEDTILES_H
#define MIRAGE_DIALECT_BLOCK_ANALYSIS_SKEWEDTILES_H

#include "mirage/Dialect/Block/Analysis/HeldTile.h"

namespace mirage::block {

/// The type of shared memory that holds the load's tile in `rows` x `cols` elements with
/// its rows skewed, or null if rows start at words, if anything other than products along the rows
/// reads them, or if tiles start within lines of 16 bytes.
thread::SharedType getSkewedType(LoadOp load, int64_t rows, int64_t cols);

} // namespace mirage::block

#endif // MIRAGE_DIALECT_BLOCK_ANALYSIS_SKEWEDTILES_H
