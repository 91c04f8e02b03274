//===- EightBits.h - floats of 8 bits ---------------------------*- C++ -*-===//
//
// Registers hold them as f16 or f32, memory as bytes. All chips have the instructions of these
// conversions.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_LIB_CONVERSION_THREADTONVVM_EIGHTBITS_H
#define MIRAGE_LIB_CONVERSION_THREADTONVVM_EIGHTBITS_H

#include "Emitter.h"

#include "mirage/Dialect/Common/ElementTypes.h"

namespace mirage::thread {

/// The type of an element in memory, as LLVM knows it: floats of 8 bits are bytes.
mlir::Type getMemoryType(mlir::Type element);

/// An f32 rounded to nearest even among the numbers of f8E4M3FN. Numbers that are too large,
/// including infinity, become 448.
mlir::Value roundToE4M3(Emitter &e, mlir::Value x);
/// Among those of f8E5M2, which has infinities.
mlir::Value roundToE5M2(Emitter &e, mlir::Value x);

/// The number (f16 or f32) that a byte represents in the 8-bit type.
mlir::Value fromEightBits(Emitter &e, mlir::Value byte, mlir::Type eightBits, mlir::Type wide);
/// The byte for an f32, which is rounded as above.
mlir::Value toEightBits(Emitter &e, mlir::Value x, mlir::Type eightBits);

/// An element as memory holds it (`getMemoryType(held)`) as an element of a fragment.
mlir::Value fromMemory(Emitter &e, mlir::Value scalar, mlir::Type held, mlir::Type element);

} // namespace mirage::thread

#endif // MIRAGE_LIB_CONVERSION_THREADTONVVM_EIGHTBITS_H
