//===- Passes.td - BlockTransforms passes -----------------------------*- tablegen -*-===//

#ifndef MIRAGE_DIALECT_BLOCK_TRANSFORMS_PASSES_TD
#define MIRAGE_DIALECT_BLOCK_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

#endif // MIRAGE_DIALECT_BLOCK_TRANSFORMS_PASSES_TD
