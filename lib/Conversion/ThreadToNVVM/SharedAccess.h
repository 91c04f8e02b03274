//===- SharedAccess.h - fragments from and to shared memory -----*- C++ -*-===//

#ifndef MIRAGE_LIB_CONVERSION_THREADTONVVM_SHAREDACCESS_H
#define MIRAGE_LIB_CONVERSION_THREADTONVVM_SHAREDACCESS_H

#include "EightBits.h"
#include "Emitter.h"

#include "llvm/ADT/DenseMap.h"

namespace mirage::thread {

/// Addresses of elements of a shared tile at (row + r, col + c), where row and
/// col differ from thread to thread and r and c are constants. As far as the bits
/// of both are disjoint, the constants end up in the instructions' immediate
/// offsets, with at most one XOR for each 16-byte chunk of a swizzled row.
class SharedAddresses {
public:
  /// `rowBits`, `colBits`: the bits that `row` and `col` may have set.
  SharedAddresses(Emitter &e, SharedType tile, mlir::Value base, mlir::Value row, mlir::Value col,
                  int64_t rowBits, int64_t colBits)
      : e(e), tile(tile), base(base), row(row), col(col), rowBits(rowBits), colBits(colBits) {}

  mlir::Value get(Coord constant);

private:
  /// Byte offset of (row, col) with the chunk XORed by `flip`.
  mlir::Value dynamicOffset(mlir::Value atRow, mlir::Value atCol);
  int64_t keyShift() const;

  Emitter &e;
  SharedType tile;
  mlir::Value base, row, col;
  int64_t rowBits, colBits;
  mlir::Value plain;
  llvm::DenseMap<int64_t, mlir::Value> byFlip;
};

/// Moves a fragment between registers and a part of a shared tile.
class SharedAccess {
public:
  SharedAccess(SharedType tile, const LinearLayout &layout, Coord at = {}, bool transposed = false);

  /// One scalar for each register of the layout.
  llvm::SmallVector<mlir::Value> load(Emitter &e, mlir::Value base) const;
  /// As `load`, by `ldmatrix` where the layout is that of its result.
  llvm::SmallVector<mlir::Value> loadMatrix(Emitter &e, mlir::Value base) const;
  /// One owner of each element stores it.
  void store(Emitter &e, mlir::Value base, llvm::ArrayRef<mlir::Value> scalars) const {
    storeWhere(e, base, scalars, /*warpsHoldParts=*/false);
  }
  /// As `store`, but all warps store: `base` differs between those that hold
  /// summands of the same elements.
  void storeParts(Emitter &e, mlir::Value base, mlir::ValueRange scalars) const {
    storeWhere(e, base, llvm::SmallVector<mlir::Value>(scalars), /*warpsHoldParts=*/true);
  }

  /// Elements of one access.
  int64_t getVectorWidth() const;

private:
  /// How the lanes of `ldmatrix` give addresses: registers and lanes of the
  /// result, regrouped.
  struct MatrixPlan {
    bool transposed;
    int64_t matrices;          // of one instruction: 1, 2 or 4
    int64_t registersOfMatrix; // of a thread: 2 of 2-byte elements, 1 of 4-byte elements
    LinearLayout addresses;
  };
  std::optional<MatrixPlan> planMatrix() const;

  /// Whether pairs of 2-byte elements are read in words from rows that start at odd elements.
  bool readsPairs() const;
  struct SplitWords;
  SplitWords findWords(Emitter &e, mlir::Value start, mlir::Value half) const;
  mlir::Value toRowBeside(Emitter &e) const;
  llvm::SmallVector<mlir::Value> loadPairs(Emitter &e, mlir::Value base) const;
  void storeWhere(Emitter &e, mlir::Value base, llvm::ArrayRef<mlir::Value> scalars,
                  bool warpsHoldParts) const;
  SharedAddresses addresses(Emitter &e, mlir::Value base, const LinearLayout &of) const;
  Coord position(const LinearLayout &of, int64_t reg) const;
  int64_t elementBytes() const { return tile.getElementBytes(); }
  mlir::Type elementType() const { return getMemoryType(tile.getElementType()); }
  /// Registers in the order of the caller's layout.
  llvm::SmallVector<mlir::Value> restore(llvm::ArrayRef<mlir::Value> scalars) const;

  SharedType tile;
  LinearLayout original, layout;
  Coord at;
  bool transposed;
};

} // namespace mirage::thread

#endif // MIRAGE_LIB_CONVERSION_THREADTONVVM_SHAREDACCESS_H
