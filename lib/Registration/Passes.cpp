//===- Passes.cpp - passes and pipelines ----------------------------------===//

#include "mirage/Conversion/Passes.h"
#include "mirage/Conversion/ThreadToNVVM/Passes.h"
#include "mirage/Dialect/Block/Transforms/Passes.h"
#include "mirage/Dialect/Kernel/Transforms/Passes.h"
#include "mirage/Dialect/Thread/Transforms/Passes.h"
#include "mirage/Pipelines/Passes.h"
#include "mirage/PythonPasses/Passes.h"
#include "mirage/Registration/Registration.h"

#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/IndexToLLVM/IndexToLLVM.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/NVGPUToNVVM/NVGPUToNVVM.h"
#include "mlir/Conversion/NVVMToLLVM/NVVMToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Conversion/VectorToSCF/VectorToSCF.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/GPU/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

using CreatePass = std::unique_ptr<Pass> (*)();

// One by one: all of upstream's conversions would pull every target into the
// static tools, and their header every dialect into this file.
static constexpr CreatePass conversions[] = {
    createArithToLLVMConversionPass,
    createConvertControlFlowToLLVMPass,
    createConvertFuncToLLVMPass,
    createConvertGpuOpsToNVVMOps,
    createConvertIndexToLLVMPass,
    createConvertMathToLLVMPass,
    createConvertNVGPUToNVVMPass,
    createConvertNVVMToLLVMPass,
    createConvertVectorToLLVMPass,
    [] { return createConvertVectorToSCFPass(); },
    createFinalizeMemRefToLLVMConversionPass,
    createLowerAffinePass,
    createReconcileUnrealizedCastsPass,
    createSCFToControlFlowPass,
    createUBToLLVMConversionPass,
};

static void registerUpstreamPasses() {
  registerTransformsPasses();
  for (CreatePass create : conversions)
    registerPass(create);
  arith::registerArithExpandOpsPass();
  registerGpuKernelOutliningPass();
  registerGpuModuleToBinaryPass();
  registerGpuNVVMAttachTarget();
  memref::registerExpandStridedMetadataPass();
}

void mirage::registerAllPasses() {
  // The pass registry is a process-wide global of MLIR's that does not expect
  // to see the same pass twice.
  static const bool once = [] {
    registerUpstreamPasses();
    kernel::registerKernelTransformsPasses();
    block::registerBlockTransformsPasses();
    thread::registerThreadTransformsPasses();
    mirage::registerConversionPasses();
    mirage::registerThreadToNVVMPasses();
    mirage::registerPipelinesPasses();
    mirage::registerPipelines();
    registerPythonPasses();
    return true;
  }();
  (void)once;
}
