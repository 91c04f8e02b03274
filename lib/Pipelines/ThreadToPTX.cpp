//===- ThreadToPTX.cpp - the pipeline from thread ops to PTX --------------===//

#include "mirage/Conversion/ThreadToNVVM/Passes.h"
#include "mirage/Dialect/Thread/Transforms/Passes.h"
#include "mirage/Pipelines/Passes.h"

#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/GPU/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

void mirage::buildThreadToPTX(OpPassManager &manager, const ThreadToPTXOptions &options) {
  manager.addPass(thread::createCheckChip({options.chip.getValue()}));
  OpPassManager &kernels = manager.nest<gpu::GPUModuleOp>();
  kernels.addPass(createConvertThreadToNVVM());
  // Bottom up: extracts from vectors fold once their operands have, which takes several times as
  // long the other way round.
  // Without the pattern that compares all pairs of values that a loop carries, whenever anything in
  // the loop has changed: it takes nine tenths of the time if a loop carries a hundred sums, and
  // LLVM removes duplicates. (Compilers write anonymous namespaces in one of two ways.)
  SmallVector<std::string> quadratic{"(anonymous namespace)::RemoveDuplicateSuccessorInputUses",
                                     "{anonymous}::RemoveDuplicateSuccessorInputUses"};
  kernels.addPass(
      createCanonicalizerPass(GreedyRewriteConfig().setUseTopDownTraversal(false), quadratic));
  kernels.addPass(createCSEPass());
  kernels.addPass(createLoopInvariantCodeMotionPass());
  kernels.addPass(createRecomputeValues({options.chip.getValue()}));
  kernels.addPass(createSCFToControlFlowPass());
  ConvertGpuOpsToNVVMOpsOptions toNVVM;
  toNVVM.useBarePtrCallConv = true;
  // Coordinates and loop counters are below 2^31; device offsets are i64 already.
  toNVVM.indexBitwidth = 32;
  kernels.addPass(createConvertGpuOpsToNVVMOps(toNVVM));
  kernels.addPass(createCanonicalizerPass());
  kernels.addPass(createCSEPass());
  kernels.addPass(createReconcileUnrealizedCastsPass());
  kernels.addPass(createSetTensorMaps());
  if (options.lineInfo) {
    LLVM::DIScopeForLLVMFuncOpPassOptions lines;
    lines.emissionKind = LLVM::DIEmissionKind::LineTablesOnly;
    manager.addPass(LLVM::createDIScopeForLLVMFuncOpPass(lines));
  }

  GpuNVVMAttachTargetOptions target;
  // Unknown chips were rejected before.
  const Chip *chip = Chip::find(options.chip.getValue());
  target.chip = chip ? std::string(chip->name) : options.chip.getValue();
  target.features = options.features;
  target.optLevel = options.optLevel;
  manager.addPass(createGpuNVVMAttachTarget(target));
  GpuModuleToBinaryPassOptions binary;
  binary.compilationTarget = "isa";
  manager.addPass(createGpuModuleToBinaryPass(binary));
  manager.addPass(createFinishBinaries());
}

void mirage::registerPipelines() {
  PassPipelineRegistration<LowerBlockOptions>(
      "mirage-lower-block", "turn launches with schedules into GPU functions of thread ops",
      buildLowerBlock);
  PassPipelineRegistration<ThreadToPTXOptions>(
      "mirage-thread-to-ptx", "turn GPU functions of thread ops into PTX", buildThreadToPTX);
}
