//===- ScalarFunctions.h - scalar functions in PTX --------------*- C++ -*-===//

#ifndef MIRAGE_LIB_CONVERSION_THREADTONVVM_SCALARFUNCTIONS_H
#define MIRAGE_LIB_CONVERSION_THREADTONVVM_SCALARFUNCTIONS_H

#include "Emitter.h"

namespace mirage::thread {

/// `fn` of an f32.
mlir::Value emitUnary(Emitter &e, UnaryFn fn, mlir::Value x);
/// `exp` of an f32, for results that are rounded to 16 bits.
mlir::Value emitRoundedExp(Emitter &e, mlir::Value x);
/// `fn` of two f32s. `constant` is the second operand where it is known.
mlir::Value emitBinary(Emitter &e, BinaryFn fn, mlir::Value a, mlir::Value b,
                       std::optional<double> constant = std::nullopt);

} // namespace mirage::thread

#endif // MIRAGE_LIB_CONVERSION_THREADTONVVM_SCALARFUNCTIONS_H
