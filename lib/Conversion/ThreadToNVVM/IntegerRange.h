//===- IntegerRange.h - bounds of scalars in registers ----------*- C++ -*-===//

#ifndef MIRAGE_LIB_CONVERSION_THREADTONVVM_INTEGERRANGE_H
#define MIRAGE_LIB_CONVERSION_THREADTONVVM_INTEGERRANGE_H

#include "mlir/IR/Value.h"

#include <optional>

namespace mirage::thread {

/// The least and the greatest number that a value may be.
struct IntegerRange {
  int64_t least, greatest;
};

/// Bounds of a signed integer that follow from the arithmetic by which it is made. Nullopt if none
/// are known, or if the arithmetic may wrap around.
std::optional<IntegerRange> getIntegerRange(mlir::Value value);

/// Whether each value certainly fits in 32 bits.
bool fitInWords(llvm::ArrayRef<mlir::Value> values);

} // namespace mirage::thread

#endif // MIRAGE_LIB_CONVERSION_THREADTONVVM_INTEGERRANGE_H
