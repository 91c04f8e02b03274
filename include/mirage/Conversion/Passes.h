//===- Passes.h - Conversion passes --------------------------------*- C++ -*-===//

#ifndef MIRAGE_CONVERSION_PASSES_H
#define MIRAGE_CONVERSION_PASSES_H

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"

namespace mirage {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "mirage/Conversion/Passes.h.inc"
} // namespace mirage

#endif // MIRAGE_CONVERSION_PASSES_H
