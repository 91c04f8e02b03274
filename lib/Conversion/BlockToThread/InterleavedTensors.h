//===- InterleavedTensors.h - views of one tensor -------------*- C++ -*-===//

#ifndef MIRAGE_LIB_CONVERSION_BLOCKTOTHREAD_INTERLEAVEDTENSORS_H
#define MIRAGE_LIB_CONVERSION_BLOCKTOTHREAD_INTERLEAVEDTENSORS_H

#include "mirage/Dialect/Kernel/IR/Kernel.h"

namespace mirage {

/// A tensor of a launch whose elements lie between those of another one.
struct InterleavedTensor {
  /// The numbers of both, operands first; a tensor that others lie between is
  /// listed with its own number and a distance of 0.
  int64_t number, base;
  /// From the first element of the base to that of the tensor.
  int64_t elements;

  bool operator==(const InterleavedTensor &other) const {
    return number == other.number && base == other.base && elements == other.elements;
  }
};

/// The operands that are slices of one tensor, and the results that are parts
/// of one join, if their first elements lie within 16 bytes: threads that hold
/// the same elements of them access neighbours in memory.
llvm::SmallVector<InterleavedTensor>
findInterleaved(kernel::LaunchOp launch, llvm::function_ref<bool(kernel::SliceOp)> isAddress);

} // namespace mirage

#endif // MIRAGE_LIB_CONVERSION_BLOCKTOTHREAD_INTERLEAVEDTENSORS_H
