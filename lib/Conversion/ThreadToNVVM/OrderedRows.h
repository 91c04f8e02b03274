//===- OrderedRows.h - whole rows in an order of their own ------*- C++ -*-===//
//
// Accesses of `ordered` tiles. The first vectors have the columns of a row from its first multiple
// of 16 bytes on, in order, as many as exist for every start of a row. They are followed by the
// columns before that multiple, and then by the remaining ones at the end. Vectors of registers are
// loaded and stored as such, the few other columns one by one.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_LIB_CONVERSION_THREADTONVVM_ORDEREDROWS_H
#define MIRAGE_LIB_CONVERSION_THREADTONVVM_ORDEREDROWS_H

#include "GlobalAccess.h"

#include "llvm/ADT/DenseMap.h"

namespace mirage::thread {

class OrderedRows {
public:
  /// For threads that hold a tile of `columns` columns, and are active where `when` holds (null:
  /// everywhere).
  OrderedRows(Emitter &e, const GlobalTile &tile, const LinearLayout &layout, int64_t columns,
              mlir::Type element, mlir::Value base, llvm::ArrayRef<mlir::Value> offsets,
              mlir::Value when);

  llvm::SmallVector<mlir::Value> load() const;
  void store(llvm::ArrayRef<mlir::Value> scalars) const;

private:
  struct Row {
    mlir::Value start;  // address of its first element
    mlir::Value head;   // bytes before its first multiple of 16 bytes, as i32
    mlir::Value inside; // whether the row exists; null if it certainly does
  };
  /// Registers that hold neighbouring columns.
  struct Vector {
    const Row *row;
    mlir::Value first;   // its first column in the tile's order, as i32
    mlir::Value isWhole; // whether it is loaded as a vector; null if it certainly is
    bool isEmpty = false, isSurelyNot = false;
  };

  Vector getVector(int64_t reg) const;
  mlir::Value addressOf(const Vector &vector) const;
  /// The address of its element `number`, which belongs to no whole vector, and whether there is
  /// such an element.
  std::pair<mlir::Value, mlir::Value> find(const Vector &vector, int64_t number) const;
  /// The other columns of the row that the registers hold; otherwise zeros.
  llvm::SmallVector<mlir::Value> loadElements(const Vector &vector) const;
  /// A whole vector, else `elements`.
  llvm::SmallVector<mlir::Value> loadVector(const Vector &vector,
                                            llvm::ArrayRef<mlir::Value> elements) const;
  /// Whether a thread has elements that it accesses one by one.
  mlir::Value hasElements(const Vector &vector) const;
  mlir::Value zero(mlir::Type type) const;

  Emitter &e;
  const LinearLayout &layout;
  mlir::Type element;
  int64_t columns, bytes;
  int64_t width; // of a vector, in elements
  int64_t whole; // columns in vectors that are whole for every start of a row
  mlir::Value origin, column;
  llvm::DenseMap<int32_t, Row> rows; // by the registers' row
};

} // namespace mirage::thread

#endif // MIRAGE_LIB_CONVERSION_THREADTONVVM_ORDEREDROWS_H
