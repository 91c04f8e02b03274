//===- ThroughRegisters.h - copies of single elements -----------*- C++ -*-===//
//
// Elements of 2 bytes in rows that start at odd elements: neither cp.async nor the
// tensor memory accelerator can copy them. They go through registers, and are requested together
// before the first ones are written.
//
// Where possible 8 at a time: the five words that hold them are read, from an even
// element on, shifted by half a word where they start at an odd one, and written as
// 16 bytes. Words that begin within the tensor's last two elements are read as its
// last whole word; only the last element of an odd number of them is inside, and it is copied
// separately.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_LIB_CONVERSION_THREADTONVVM_THROUGHREGISTERS_H
#define MIRAGE_LIB_CONVERSION_THREADTONVVM_THROUGHREGISTERS_H

#include "GlobalAccess.h"

namespace mirage::thread {

class ThroughRegisters {
public:
  /// Elements that are shifted into place together.
  static constexpr int64_t kChunk = 8;

  ThroughRegisters(Emitter &e, const GlobalTile &tile) : e(e), tile(tile) {}

  /// Whether chunks of 8 elements can be copied.
  static bool canShift(const GlobalTile &tile);

  /// Copies an element of 1 or 2 bytes, or zeros where `inside` is false.
  void copy(mlir::Value from, mlir::Value to, mlir::Value inside, mlir::Value origin,
            int64_t bytes);
  /// Copies the chunk that begins at `at`; elements outside are zeros.
  void copyChunk(const GlobalTile::Access &access, Coord at, mlir::Value to);
  /// Writes the requested elements.
  void flush();

private:
  struct Element {
    mlir::Value loaded, to;
    int64_t bytes;
  };
  struct Chunk {
    llvm::SmallVector<mlir::Value, 5> words;
    mlir::Value first, left, to, origin; // the element, how many are inside; null for all
  };

  void write(const Chunk &chunk);
  void copyLast(const Chunk &chunk);

  Emitter &e;
  const GlobalTile &tile;
  llvm::SmallVector<Element> elements;
  llvm::SmallVector<Chunk> chunks;
};

} // namespace mirage::thread

#endif // MIRAGE_LIB_CONVERSION_THREADTONVVM_THROUGHREGISTERS_H
