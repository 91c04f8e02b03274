//===- Passes.h - from thread ops to NVVM -----------------------*- C++ -*-===//

#ifndef MIRAGE_CONVERSION_THREADTONVVM_PASSES_H
#define MIRAGE_CONVERSION_THREADTONVVM_PASSES_H

#include "mirage/Target/Chip.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Pass/Pass.h"

namespace mirage {
/// Attribute of kernels: the numbers of the parameters that are tensor maps.
constexpr llvm::StringLiteral kTensorMapsAttr = "thread.tensor_maps";

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "mirage/Conversion/ThreadToNVVM/Passes.h.inc"
} // namespace mirage

#endif // MIRAGE_CONVERSION_THREADTONVVM_PASSES_H
