//===- ElementTypes.h - what tiles hold of tensors --------------*- C++ -*-===//
//
// Tensors have element types for storage, tiles those for computation.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_COMMON_ELEMENTTYPES_H
#define MIRAGE_DIALECT_COMMON_ELEMENTTYPES_H

#include "mirage/Dialect/Common/ScalarOps.h"

#include "mlir/IR/Types.h"

namespace mirage {

/// Whether a type is a float of 8 bits (f8E4M3FN, f8E5M2).
bool isEightBitFloat(mlir::Type element);

/// The element type of a tile that is loaded from a tensor of the type: integers and truth values
/// become f32, floats of 8 bits become f16, which represents all of them; other types do not
/// change.
mlir::Type getTileElement(mlir::Type element);

/// The float of 8 bits to which the function rounds, or null.
mlir::Type getRoundedType(UnaryFn fn, mlir::MLIRContext *context);

} // namespace mirage

#endif // MIRAGE_DIALECT_COMMON_ELEMENTTYPES_H
