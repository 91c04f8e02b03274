//===- Passes.h - BlockTransforms passes --------------------------------*- C++ -*-===//

#ifndef MIRAGE_DIALECT_BLOCK_TRANSFORMS_PASSES_H
#define MIRAGE_DIALECT_BLOCK_TRANSFORMS_PASSES_H

#include "mirage/Target/Chip.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"

namespace mirage::block {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "mirage/Dialect/Block/Transforms/Passes.h.inc"
} // namespace mirage::block

#endif // MIRAGE_DIALECT_BLOCK_TRANSFORMS_PASSES_H
