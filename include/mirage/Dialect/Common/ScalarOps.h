//===- ScalarOps.h - scalar functions shared by all dialects ----*- C++ -*-===//

#ifndef MIRAGE_DIALECT_COMMON_SCALAROPS_H
#define MIRAGE_DIALECT_COMMON_SCALAROPS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

#include "mirage/Dialect/Common/ScalarOpsEnums.h.inc"

#endif // MIRAGE_DIALECT_COMMON_SCALAROPS_H
