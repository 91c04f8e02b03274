//===- Passes.h - passes implemented in Python ------------------*- C++ -*-===//

#ifndef MIRAGE_PYTHONPASSES_PASSES_H
#define MIRAGE_PYTHONPASSES_PASSES_H

#include "mirage/Dialect/Block/IR/Block.h"
#include "mirage/Dialect/Kernel/IR/Kernel.h"
#include "mirage/Target/Chip.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"

namespace mirage {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "mirage/PythonPasses/Passes.h.inc"

/// Runs the Python implementation of `pass` (found by the pass's argument) on
/// `op` in a worker process and replaces the attributes and regions of `op` by
/// the answer's. Diagnostics of the Python side are emitted at their locations; a worker that
/// cannot start, dies or is too slow is an error at `op`.
mlir::LogicalResult runPythonPass(mlir::Pass &pass, mlir::Operation *op);

} // namespace mirage

#endif // MIRAGE_PYTHONPASSES_PASSES_H
