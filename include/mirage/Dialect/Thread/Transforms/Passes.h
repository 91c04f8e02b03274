//===- Passes.h - ThreadTransforms passes --------------------------------*- C++ -*-===//

#ifndef MIRAGE_DIALECT_THREAD_TRANSFORMS_PASSES_H
#define MIRAGE_DIALECT_THREAD_TRANSFORMS_PASSES_H

#include "mirage/Target/Chip.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"

namespace mirage::thread {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "mirage/Dialect/Thread/Transforms/Passes.h.inc"
} // namespace mirage::thread

#endif // MIRAGE_DIALECT_THREAD_TRANSFORMS_PASSES_H
