//===- ScalarFacts.h - facts about scalar functions -------------*- C++ -*-===//
//
// The facts about scalar functions that passes need. They are defined with the enums in
// ScalarOps.td; a test compares them with the table in python/mirage/semantics/scalar.py.
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

/// The neutral element of a reduction.
double getIdentity(CumulateFn fn);

/// Instructions for an element, to rank layouts.
int64_t getWork(UnaryFn fn);

} // namespace mirage

#endif // MIRAGE_DIALECT_COMMON_SCALARFACTS_H
