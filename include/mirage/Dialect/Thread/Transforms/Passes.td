//===- Passes.td - ThreadTransforms passes -----------------------------*- tablegen -*-===//

#ifndef MIRAGE_DIALECT_THREAD_TRANSFORMS_PASSES_TD
#define MIRAGE_DIALECT_THREAD_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

#endif // MIRAGE_DIALECT_THREAD_TRANSFORMS_PASSES_TD
