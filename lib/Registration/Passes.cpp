//===- Passes.cpp - passes and pipelines ----------------------------------===//

#include "mirage/Conversion/Passes.h"
#include "mirage/Conversion/ThreadToNVVM/Passes.h"
#include "mirage/Dialect/Block/Transforms/Passes.h"
#include "mirage/Dialect/Kernel/Transforms/Passes.h"
#include "mirage/Dialect/Thread/Transforms/Passes.h"
#include "mirage/Pipelines/Passes.h"
#include "mirage/PythonPasses/Passes.h"
#include "mirage/Registration/Registration.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/GPU/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

// One by one: all of upstream's conversions would pull every target into the
// static tools.
static void registerUpstreamPasses() {
  registerTransformsPasses();
  registerArithToLLVMConversionPass();
  registerConvertControlFlowToLLVMPass();
  registerConvertFuncToLLVMPass();
  registerConvertGpuOpsToNVVMOps();
  registerConvertIndexToLLVMPass();
  registerConvertMathToLLVMPass();
  registerConvertNVGPUToNVVMPass();
  registerConvertNVVMToLLVMPass();
  registerConvertVectorToLLVMPass();
  registerConvertVectorToSCF();
  registerFinalizeMemRefToLLVMConversionPass();
  registerLowerAffinePass();
  registerReconcileUnrealizedCastsPass();
  registerSCFToControlFlowPass();
  registerUBToLLVMConversionPass();
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
