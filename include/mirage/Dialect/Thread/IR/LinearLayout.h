//===- LinearLayout.h - which element each register holds -------*- C++ -*-===//
//
// A tile of a matrix is held jointly by the threads of a block. Its layout is
// the function
//
//     (register, lane, warp)  ->  (row, column)
//
// Nearly all layouts of interest permute and split *bits* of indices. Such a
// function is linear over GF(2): it is determined by where it sends the powers
// of two (the basis vectors), and the image of any index is the XOR of the
// vectors of its set bits. For instance the result of `mma.m16n8k16` has
//
//     registers  [0, 1] [8, 0]
//     lanes      [0, 2] [0, 4] [1, 0] [2, 0] [4, 0]
//
// so register 3 (both bits set) of lane 5 (bits 0 and 2) is at row 8 ^ 1 = 9 and
// column 1 ^ 2 = 3. Operations on layouts become algebra on short lists:
//
//  - a vector that is zero says that its bit does not matter: its owners hold
//    copies (or, in a partial fragment, summands);
//  - dropping the column of all vectors gives the layout of row sums (`reduce`);
//  - exchanging row and column transposes without moving data (`transpose`);
//  - two layouts whose lane and warp vectors agree differ by a permutation of
//    registers alone; whose warp vectors agree, by shuffles;
//  - the longest run of register bits [0,1], [0,2], [0,4].. bounds the width of
//    a vector access (`contiguous`).
//
// Extents that are not powers of two come from `repeat`: the tile of the linear
// part is laid side by side in further registers, `repeat[0]` times along the
// rows, `repeat[1]` times along the columns, in row-major order. The register
// index is then `copy * 2^registerBits + register`, and a 16x24 tile is the
// layout above repeated [1, 3]. Repetition is addition, not XOR, but as the
// extents of the linear part are powers of two it never carries into its bits.
//
// Invariant: a vector that is not zero is one bit of one dimension, no two of
// them are equal, together they are all the bits of the linear part's tile, and
// no register vector is zero. So every element has exactly 2^(zero vectors)
// owners, one register each, and XOR of positions is also their sum.
//
// The idea of describing GPU register layouts as linear maps over GF(2) is from
// Zhou et al., "Linear Layouts: Robust Code Generation of Efficient Tensor
// Computation Using F2" (2025).
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_THREAD_IR_LINEARLAYOUT_H
#define MIRAGE_DIALECT_THREAD_IR_LINEARLAYOUT_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/raw_ostream.h"

#include <array>
#include <optional>
#include <string>

namespace mirage::thread {

/// Row and column of an element; also a vector over GF(2), bit by bit.
struct Coord {
  int32_t row = 0;
  int32_t col = 0;

  bool isZero() const { return row == 0 && col == 0; }
  int32_t operator[](int64_t dim) const { return dim == 0 ? row : col; }
  Coord operator^(Coord other) const { return {row ^ other.row, col ^ other.col}; }
  Coord operator+(Coord other) const { return {row + other.row, col + other.col}; }
  bool operator==(Coord other) const { return row == other.row && col == other.col; }
  bool operator!=(Coord other) const { return !(*this == other); }
  bool operator<(Coord other) const { return row != other.row ? row < other.row : col < other.col; }
};

inline llvm::hash_code hash_value(Coord coord) { return llvm::hash_combine(coord.row, coord.col); }

class LinearLayout {
public:
  using Basis = llvm::SmallVector<Coord, 12>;

  LinearLayout() = default;
  LinearLayout(Basis reg, Basis lane, Basis warp, std::array<int32_t, 2> repeat = {1, 1});

  llvm::ArrayRef<Coord> getReg() const { return reg; }
  llvm::ArrayRef<Coord> getLane() const { return lane; }
  llvm::ArrayRef<Coord> getWarp() const { return warp; }
  std::array<int32_t, 2> getRepeat() const { return repeat; }

  /// Extent of the linear part, a power of two.
  int64_t getTileExtent(int64_t dim) const;
  /// Extent of the whole: tile times repeat.
  int64_t getExtent(int64_t dim) const { return getTileExtent(dim) * repeat[dim]; }
  /// Registers of one thread.
  int64_t getNumRegisters() const;
  /// Warps that hold the tile.
  int64_t getNumWarps() const { return int64_t(1) << warp.size(); }

  /// Position of register `index` in lane 0 of warp 0.
  Coord getRegister(int64_t index) const;
  /// The contribution (XOR) of a lane index to the positions of its registers.
  Coord getLaneOffset(int64_t index) const { return combine(lane, index); }
  /// The register that holds `coord` in lane 0 of warp 0, or nullopt.
  std::optional<int64_t> findRegister(Coord coord) const;
  /// The lowest owner of an element: register, lane, warp.
  std::array<int64_t, 3> invert(Coord coord) const;

  /// The linear map without its part along `dim`: the layout of a reduction's result. Register bits
  /// that moved only along `dim` are dropped, lanes and warps keep zero vectors.
  LinearLayout reduce(int64_t dim) const;
  /// Rows and columns exchanged; registers keep their meaning up to a
  /// permutation (see `transposeRegister`).
  LinearLayout transpose() const;
  /// Number of the register in `transpose()` that holds the value of register `index`.
  int64_t transposeRegister(int64_t index) const;

  /// Length of the longest aligned run of registers 0, 1, 2, .. that are
  /// neighbours along `dim`, a power of two.
  int64_t contiguous(int64_t dim) const;
  /// Whether any warp vector moves along `dim`.
  bool warpsSpan(int64_t dim) const;

  bool operator==(const LinearLayout &other) const;
  bool operator!=(const LinearLayout &other) const { return !(*this == other); }

  /// The reason why the vectors violate the invariant, or an empty string.
  std::string check() const;

  /// As in IR: `reg = [[0, 1]], lane = [..], warp = [..], repeat = [1, 3]`.
  void print(llvm::raw_ostream &os) const;
  std::string str() const;

  friend llvm::hash_code hash_value(const LinearLayout &layout);

private:
  static Coord combine(llvm::ArrayRef<Coord> basis, int64_t index);

  Basis reg, lane, warp;
  std::array<int32_t, 2> repeat = {1, 1};
};

} // namespace mirage::thread

#endif // MIRAGE_DIALECT_THREAD_IR_LINEARLAYOUT_H
