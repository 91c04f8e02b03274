//===- ScalarFacts.h - facts about scalar functions -------------*- C++ -*-===//
//
// What passes need to know of a scalar function. The facts stand with the enums
// in ScalarOps.td; a test compares them with the table in
// python/mirage/semantics/scalar.py.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_COMMON_SCALARFACTS_H
#define MIRAGE_DIALECT_COMMON_SCALARFACTS_H

#include "mirage/Dialect/Common/ScalarOps.h"

namespace mirage {

/// Whether the function is 0 where its operand is (all its operands are).
bool isZeroAtZero(UnaryFn fn);
bool isZeroAtZero(BinaryFn fn);

/// Whether the function's value is true (1) or false (0).
bool isTruth(BinaryFn fn);

/// What no element gives, by which other elements are combined without effect.
double getIdentity(CumulateFn fn);

/// Instructions for an element, to rank layouts.
int64_t getWork(UnaryFn fn);

} // namespace mirage

#endif // MIRAGE_DIALECT_COMMON_SCALARFACTS_H
