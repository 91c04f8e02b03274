//===- SkewedTiles.h - tiles whose rows start at odd elements ---*- C++ -*-===//
//
// Rows of 2-byte elements, an odd number of them long, start at odd elements: no
// asynchronous copy can begin there. Such a tile may keep in shared memory how far each
// row is behind a multiple of 16 bytes, by the pad of its rows. Whole lines of 16 bytes
// are then copied as those of other tiles are, ahead of the loop; in exchange a pair of
// elements is read as two words where its row starts at an odd element. Products that
// contract along the rows read pairs along them; others would read single elements, and
// keep tiles of aligned rows, which are filled through registers.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_BLOCK_ANALYSIS_SKEWEDTILES_H
#define MIRAGE_DIALECT_BLOCK_ANALYSIS_SKEWEDTILES_H

#include "mirage/Dialect/Block/Analysis/HeldTile.h"

namespace mirage::block {

/// The type of shared memory that holds the load's tile in `rows` x `cols` elements with
/// its rows skewed, or null where they start at words, where something but products along
/// the rows reads them, or where tiles start within lines of 16 bytes.
thread::SharedType getSkewedType(LoadOp load, int64_t rows, int64_t cols);

} // namespace mirage::block

#endif // MIRAGE_DIALECT_BLOCK_ANALYSIS_SKEWEDTILES_H
