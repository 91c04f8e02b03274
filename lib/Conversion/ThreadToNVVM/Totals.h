//===- Totals.h - how elements are combined into totals ---------*- C++ -*-===//
//
// Code for sums, maxima and products of elements, both reductions and running totals. Elements are
// f32, or integers of 64 bits, which wrap around.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_LIB_CONVERSION_THREADTONVVM_TOTALS_H
#define MIRAGE_LIB_CONVERSION_THREADTONVVM_TOTALS_H

#include "Emitter.h"

namespace mirage::thread {

mlir::Value combine(Emitter &e, CumulateFn fn, mlir::Value a, mlir::Value b);
mlir::Value combine(Emitter &e, ReduceFn fn, mlir::Value a, mlir::Value b);

/// The neutral element.
mlir::Value identity(Emitter &e, CumulateFn fn, mlir::Type element);

} // namespace mirage::thread

#endif // MIRAGE_LIB_CONVERSION_THREADTONVVM_TOTALS_H
