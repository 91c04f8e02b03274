//===- Passes.td - KernelTransforms passes -----------------------------*- tablegen -*-===//

#ifndef MIRAGE_DIALECT_KERNEL_TRANSFORMS_PASSES_TD
#define MIRAGE_DIALECT_KERNEL_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def MirageDecompose : Pass<"mirage-decompose", "::mirage::kernel::GraphOp"> {
  let summary = "replace composite tensor ops by the primitive ops that define them";
  let description = [{
    Precondition: none. Softmax, rms_norm, layer_norm and all other ops that
    implement `DecomposableOpInterface` are replaced by primitive ops. The search
    and the verifier do the same on their own data, so the pass is for people who
    want to read the definitions, and for tests. It cannot fail.

    Without `stable`, softmax becomes `exp(x) / sum(exp(x))`, which is equal over
    the real numbers and leaves it to `mirage-stabilize` to avoid overflow.
  }];
  let options = [
    Option<"stable", "stable", "bool", "false", "subtract the row maximum in softmax">
  ];
  let statistics = [
    Statistic<"numDecomposed", "num-decomposed", "number of composite ops replaced">
  ];
}

#endif // MIRAGE_DIALECT_KERNEL_TRANSFORMS_PASSES_TD
