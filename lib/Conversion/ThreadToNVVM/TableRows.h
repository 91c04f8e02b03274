//===- TableRows.h - rows that indices name ---------------------*- C++ -*-===//

#ifndef MIRAGE_LIB_CONVERSION_THREADTONVVM_TABLEROWS_H
#define MIRAGE_LIB_CONVERSION_THREADTONVVM_TABLEROWS_H

#include "GlobalAccess.h"

namespace mirage::thread {

/// Row-major strides of a shape, in elements.
inline llvm::SmallVector<int64_t> getStrides(llvm::ArrayRef<int64_t> shape) {
  llvm::SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t d = int64_t(shape.size()) - 2; d >= 0; --d)
    strides[d] = strides[d + 1] * shape[d + 1];
  return strides;
}

/// The row that an index names.
struct Row {
  mlir::Value pointer; // to its first element; to the table's if there is none
  mlir::Value exists;  // i1
};

/// Reads an index.
inline mlir::Value readIndex(Emitter &e, mlir::MemRefType indexType, mlir::Value pointer) {
  int64_t bytes = indexType.getElementTypeBitWidth() / 8;
  return mlir::LLVM::LoadOp::create(e, indexType.getElementType(), pointer, bytes);
}

/// Finds the row that an index names, `fromEnd` counting negative ones from the table's end. Other
/// negative ones are large as unsigned numbers, so they name none.
inline Row rowOf(Emitter &e, mlir::Value index, mlir::MemRefType tableType, mlir::Value table,
                 bool fromEnd) {
  if (index.getType().isInteger(32))
    index = e.createOrFold<mlir::arith::ExtSIOp>(e.getI64Type(), index);
  mlir::Value rows = e.i64(tableType.getShape().front());
  if (fromEnd) {
    mlir::Value negative = e.compare(mlir::arith::CmpIPredicate::slt, index, e.i64(0));
    index = e.add(index, e.select(negative, rows, e.i64(0)));
  }
  mlir::Value exists = e.compare(mlir::arith::CmpIPredicate::ult, index, rows);
  auto [strides, offset] = tableType.getStridesAndOffset();
  int64_t rowBytes = strides.front() * (tableType.getElementTypeBitWidth() / 8);
  return {e.offset(table, e.mul(e.select(exists, index, e.i64(0)), rowBytes)), exists};
}

} // namespace mirage::thread

#endif // MIRAGE_LIB_CONVERSION_THREADTONVVM_TABLEROWS_H
