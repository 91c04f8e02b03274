//===- ElementTypes.h - what tiles hold of tensors --------------*- C++ -*-===//
//
// Tensors have element types that are good for memory, tiles those that are
// computed with.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_COMMON_ELEMENTTYPES_H
#define MIRAGE_DIALECT_COMMON_ELEMENTTYPES_H

#include "mirage/Dialect/Common/ScalarOps.h"

#include "mlir/IR/Types.h"

namespace mirage {

/// Whether a type is a float of 8 bits (f8E4M3FN, f8E5M2).
bool isEightBitFloat(mlir::Type element);

/// What a tile holds that is loaded from a tensor of the type: integers and
/// truth values become f32, floats of 8 bits f16, which holds all of them; other
/// types are as they are.
mlir::Type getTileElement(mlir::Type element);

/// The float of 8 bits to which the function rounds, or null.
mlir::Type getRoundedType(UnaryFn fn, mlir::MLIRContext *context);

} // namespace mirage

#endif // MIRAGE_DIALECT_COMMON_ELEMENTTYPES_H
