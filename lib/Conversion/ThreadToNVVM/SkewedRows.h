//===- SkewedRows.h - rows at odd elements, copied in whole lines -*- C++ -*-===//
//
// A tile of a tensor whose rows start at any element is placed in shared memory such that each row
// has the same offset from a multiple of 16 bytes as in device memory: the pitch of its rows and
// the tensor's stride differ by a multiple of 16 bytes. Lines of 16 bytes are then copied
// asynchronously between multiples of 16 bytes, like those of aligned rows, one more for each row.
// The parts of a line outside of its row are before the row's start or in its pad. Registers are
// read from such rows in words, two of which make a pair of elements that starts at an odd one
// (SharedAccess).
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_LIB_CONVERSION_THREADTONVVM_SKEWEDROWS_H
#define MIRAGE_LIB_CONVERSION_THREADTONVVM_SKEWEDROWS_H

#include "GlobalAccess.h"

namespace mirage::thread {

class SkewedRows {
public:
  static constexpr int64_t kLine = 16;

  SkewedRows(Emitter &e, const GlobalTile &tile, SharedType shared, mlir::Value source,
             llvm::ArrayRef<mlir::Value> offsets, mlir::Value dest)
      : e(e), tile(tile), shared(shared), source(source), offsets(offsets), dest(dest) {}

  /// Whether the tile's rows have the same offsets in shared memory as in the tensor.
  static bool canCopy(const GlobalTile &tile, SharedType shared);

  /// Pairs of such a tile are read as words that may start before a row or end after it: writes the
  /// elements that are read there, for copies of single elements.
  static void clearBesideRows(Emitter &e, SharedType shared, mlir::Value dest);

  /// Starts the copy: all lines of each row, then the one in which some rows end.
  void copy();

private:
  /// A thread's line in rows with the same offset from a multiple of 16 bytes.
  struct Line {
    GlobalTile::Access from;
    mlir::Value to;
    mlir::Value bytes; // of the line that are before the end of its row: 0 to 16
  };

  /// Copies `count` lines of each row, from line `first` on.
  void copyLines(int64_t first, int64_t count);
  /// The line at byte `start` of row `row` plus `step`, except for the constants that the step
  /// adds.
  Line find(mlir::Value row, mlir::Value start, int64_t step) const;
  void copyLine(const Line &line, int64_t step) const;

  Emitter &e;
  const GlobalTile &tile;
  SharedType shared;
  mlir::Value source;
  llvm::ArrayRef<mlir::Value> offsets;
  mlir::Value dest;
};

} // namespace mirage::thread

#endif // MIRAGE_LIB_CONVERSION_THREADTONVVM_SKEWEDROWS_H
