//===- Passes.td - Conversion passes -----------------------------*- tablegen -*-===//

#ifndef MIRAGE_CONVERSION_PASSES_TD
#define MIRAGE_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

#endif // MIRAGE_CONVERSION_PASSES_TD
