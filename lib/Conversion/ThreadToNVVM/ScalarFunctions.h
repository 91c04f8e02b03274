//===- ScalarFunctions.h - scalar functions in PTX --------------*- C++ -*-===//

#ifndef MIRAGE_LIB_CONVERSION_THREADTONVVM_SCALARFUNCTIONS_H
#define MIRAGE_LIB_CONVERSION_THREADTONVVM_SCALARFUNCTIONS_H

#include "Emitter.h"

namespace mirage::thread {

/// `fn` of an f32.
mlir::Value emitUnary(Emitter &e, UnaryFn fn, mlir::Value x);
/// `exp` of a difference of two f32s in one instruction less (see CoarseFunctions.cpp): the
/// exponential of 0 differs from 1 by the rounding of the sides of the difference, times log2(e).
mlir::Value emitCoarseExp(Emitter &e, mlir::Value x);
/// `exp` of a difference of two f32s that may be huge: the exponential of 0 is 1.
mlir::Value emitFarExp(Emitter &e, mlir::Value x);
/// `gelu` of an f32 by half the terms of a polynomial: exact to 2^-16.
mlir::Value emitCoarseGelu(Emitter &e, mlir::Value x);
/// `fn` of two f32s. `constant` is the second operand if it is known.
mlir::Value emitBinary(Emitter &e, BinaryFn fn, mlir::Value a, mlir::Value b,
                       std::optional<double> constant = std::nullopt);

} // namespace mirage::thread

#endif // MIRAGE_LIB_CONVERSION_THREADTONVVM_SCALARFUNCTIONS_H
