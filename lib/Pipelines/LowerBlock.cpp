//===- LowerBlock.cpp - the pipeline from block graphs to thread ops ------===//

#include "mirage/Conversion/Passes.h"
#include "mirage/Dialect/Block/Transforms/Passes.h"
#include "mirage/Dialect/Thread/Transforms/Passes.h"
#include "mirage/Pipelines/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

void mirage::buildLowerBlock(OpPassManager &manager, const LowerBlockOptions &options) {
  manager.addPass(block::createKernelsToLaunches());
  manager.addNestedPass<kernel::GraphOp>(block::createViewTensors());
  manager.addPass(block::createSplitOverClusters());
  manager.addPass(block::createLegalizeTiles());
  manager.addPass(block::createFlattenTiles());
  // Loads of the same tile are one.
  manager.addPass(createCSEPass());
  manager.addPass(block::createChooseEngine({options.chip.getValue()}));
  manager.addPass(block::createAssignLayouts({options.chip.getValue()}));
  manager.addPass(block::createMaskPadding());
  manager.addPass(block::createPipelineLoops({options.chip.getValue()}));
  manager.addPass(createConvertBlockToThread());
  manager.addPass(thread::createExpandRings());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  manager.addPass(thread::createOrderColumns());
  manager.addPass(thread::createPlanSharedMemory({options.chip.getValue()}));
  manager.addPass(
      thread::createOverlapLaunches({options.chip.getValue(), options.follows.getValue()}));
  manager.addPass(thread::createPackBlocks({options.chip.getValue()}));
  manager.addPass(thread::createGrantRegisters({options.chip.getValue()}));
}
