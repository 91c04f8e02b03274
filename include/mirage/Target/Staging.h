//===- Staging.h - how tiles lie in shared memory ---------------*- C++ -*-===//
//
// The tiles that go through shared memory, and the memory that they take there. The search predicts
// both with the same numbers (python/bindings). Plain C++.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_TARGET_STAGING_H
#define MIRAGE_TARGET_STAGING_H

#include <cstdint>

namespace mirage {

/// Smaller tiles of a loop are loaded into registers.
inline constexpr int64_t minStagedBytes = 512;
/// Asynchronous copies move multiples of this number of bytes.
inline constexpr int64_t asyncCopyUnit = 4;
/// Elements between the rows of a tile through which warps exchange values: the
/// accesses of tensor-core layouts (8 rows, pairs of columns) reach all banks.
inline constexpr int64_t exchangePad = 8;
/// Bytes of the two mbarriers of a slot that another warp fills.
inline constexpr int64_t slotBarrierBytes = 16;
/// Rows of a product up to which it is computed transposed, its rows on the
/// small side of the instruction.
inline constexpr int64_t narrowRows = 8;

/// The limits of one copy of the tensor memory accelerator: dimensions of the tensor, rows of the
/// box, and the bytes of which the tensor's rows and the box's rows are multiples.
inline constexpr int64_t minBoxRank = 2, maxBoxRank = 5, maxBoxRows = 256, boxRowUnit = 16,
                         boxTileUnit = 32;

/// The bytes of the swizzle of a staged tile of rows of `rowBytes` in shared
/// memory: the largest that its rows are multiples of. Without one (0), rows need no pad: if they
/// are multiples of 16 bytes, these are odd multiples, and eight rows start in different banks.
inline int64_t getSharedSwizzle(int64_t rows, int64_t rowBytes) {
  for (int64_t swizzle : {128, 64, 32})
    if (rows > 1 && rowBytes % swizzle == 0)
      return swizzle;
  return 0;
}

/// The unit in which asynchronous copies are the fastest; source and destination then start at
/// multiples of it.
inline constexpr int64_t lineBytes = 16;

/// Words of shared memory after which its banks, of a word each, repeat.
inline constexpr int64_t bankCount = 32, bankBytes = 4;

/// The start of rows within a quarter of the banks, at this pitch (2 bytes after a multiple of
/// words): the lanes of products have eight rows at a time, and four runs of eight words of each.
/// They read from different banks if odd rows are half a quarter away from even ones, each run of
/// which has one word less, either the last or the first.
inline bool readsLastBeside(int64_t pitch) { return pitch / bankBytes % 8 == 4; }
inline bool readsFirstBeside(int64_t pitch) { return pitch / bankBytes % 8 == 3; }

/// The bytes of a request: asynchronous copies are the fastest if source and destination have the
/// same offset from a multiple of these.
inline constexpr int64_t requestBytes = 128;

/// Consecutive elements of 2 bytes that a lane of a product reads from each row, for four
/// instructions along K.
inline constexpr int64_t runElements = 64;

/// The pad, in bytes, of rows of `rowBytes` (a multiple of a line) that keep the offsets of rows at
/// this stride from multiples of a line. If they are read `inRuns` of words, they keep the offsets
/// from multiples of a request, and two rows of eight are then in the same bank. A row may take a
/// line more than it fills. Otherwise four lanes read from each of eight rows: a line, in which
/// case the lines of every second row are in different banks, or runs of words, if rows are long
/// enough.
inline int64_t getSkewedPad(int64_t rowBytes, int64_t strideBytes, bool inRuns) {
  constexpr int64_t banks = bankCount * bankBytes;
  if (inRuns) {
    int64_t alike = (strideBytes - rowBytes - lineBytes) % requestBytes;
    return lineBytes + (alike + requestBytes) % requestBytes;
  }
  int64_t least = lineBytes + strideBytes % lineBytes, fair = 0;
  for (int64_t pad = least; pad < least + banks; pad += lineBytes) {
    int64_t pitch = rowBytes + pad;
    bool apart = true;
    for (int64_t row : {2, 4, 6}) {
      int64_t distance = row * pitch % banks;
      apart &= distance >= lineBytes && distance <= banks - lineBytes;
    }
    if (apart && (readsLastBeside(pitch) || readsFirstBeside(pitch)))
      return pad;
    if (apart && !fair)
      fair = pad;
  }
  return fair ? fair : least;
}

/// Alignment of a shared tile, whose rows may be skewed.
inline int64_t getSharedAlignment(int64_t swizzle, bool isSkewed) {
  return isSkewed ? requestBytes : swizzle ? 8 * swizzle : lineBytes;
}

} // namespace mirage

#endif // MIRAGE_TARGET_STAGING_H
