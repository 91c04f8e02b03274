//===- Passes.h - pipelines to PTX ------------------------------*- C++ -*-===//

#ifndef MIRAGE_PIPELINES_PASSES_H
#define MIRAGE_PIPELINES_PASSES_H

#include "mirage/Dialect/Kernel/IR/Kernel.h"
#include "mirage/Target/Chip.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassOptions.h"

namespace mirage {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "mirage/Pipelines/Passes.h.inc"

inline constexpr char chipHelp[] = "chip (sm_90a) or card (h200)";

/// Options of `mirage-thread-to-ptx`.
struct ThreadToPTXOptions : public mlir::PassPipelineOptions<ThreadToPTXOptions> {
  Option<std::string> chip{*this, "chip", llvm::cl::desc(chipHelp), llvm::cl::init(defaultChip)};
  Option<std::string> features{*this, "features",
                               llvm::cl::desc("target features, among them the PTX version"),
                               llvm::cl::init("+ptx80")};
  Option<unsigned> optLevel{*this, "opt-level", llvm::cl::desc("LLVM's optimization level"),
                            llvm::cl::init(3)};
  Option<bool> lineInfo{*this, "line-info",
                        llvm::cl::desc("carry source locations to .loc directives"),
                        llvm::cl::init(false)};
};

/// From GPU functions of thread ops to `gpu.binary` with PTX.
void buildThreadToPTX(mlir::OpPassManager &manager, const ThreadToPTXOptions &options);

/// Options of `mirage-lower-block`.
struct LowerBlockOptions : public mlir::PassPipelineOptions<LowerBlockOptions> {
  Option<std::string> chip{*this, "chip", llvm::cl::desc(chipHelp), llvm::cl::init(defaultChip)};
  Option<bool> follows{*this, "follows",
                       llvm::cl::desc("kernels of other graphs run before and after"),
                       llvm::cl::init(false)};
};

/// From graphs of launches with schedules to GPU functions of thread ops.
void buildLowerBlock(mlir::OpPassManager &manager, const LowerBlockOptions &options);

/// Registers the pipelines under their names.
void registerPipelines();

} // namespace mirage

#endif // MIRAGE_PIPELINES_PASSES_H
