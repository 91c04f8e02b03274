//===- Passes.h - KernelTransforms passes --------------------------------*- C++ -*-===//

#ifndef MIRAGE_DIALECT_KERNEL_TRANSFORMS_PASSES_H
#define MIRAGE_DIALECT_KERNEL_TRANSFORMS_PASSES_H

#include "mirage/Dialect/Kernel/IR/Kernel.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"

namespace mirage::kernel {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "mirage/Dialect/Kernel/Transforms/Passes.h.inc"
} // namespace mirage::kernel

#endif // MIRAGE_DIALECT_KERNEL_TRANSFORMS_PASSES_H
