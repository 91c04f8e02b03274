//===- BlockToThread.cpp - launches as GPU functions ----------------------===//

#include "TileEmitter.h"

#include "mirage/Conversion/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"

namespace mirage {
#define GEN_PASS_DEF_CONVERTBLOCKTOTHREAD
#include "mirage/Conversion/Passes.h.inc"
} // namespace mirage

using namespace mlir;
using namespace mirage;

/// Kernel parameters have at least two dimensions, so that every tile finds
/// dimensions for its rows and columns.
static MemRefType getParameterType(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  SmallVector<int64_t> shape(tensor.getShape());
  while (shape.size() < 2)
    shape.insert(shape.begin(), 1);
  return MemRefType::get(shape, tensor.getElementType());
}

namespace {
struct ConvertBlockToThread : mirage::impl::ConvertBlockToThreadBase<ConvertBlockToThread> {
  void runOnOperation() override {
    SmallVector<kernel::GraphOp> graphs(getOperation().getOps<kernel::GraphOp>());
    for (kernel::GraphOp graph : graphs)
      if (failed(convert(graph)))
        return signalPassFailure();
  }

private:
  /// Every tile says how it is held, every matmul how warps share it.
  static LogicalResult checkInput(kernel::LaunchOp launch) {
    if (!launch.getSchedule())
      return launch.emitOpError("expected a schedule (#kernel.schedule), got none");
    WalkResult walk = launch.getBody().walk([](Operation *op) {
      for (Value value : op->getResults())
        if (isa<block::TileType>(value.getType()) && !block::isScalar(value) &&
            !block::getHolder(block::getTile(value))) {
          op->emitOpError("expected a layout (mirage-assign-layouts), got ") << value.getType();
          return WalkResult::interrupt();
        }
      if (auto matmul = dyn_cast<block::MatmulOp>(op); matmul && !matmul.getWarps()) {
        op->emitOpError("expected 'warps' (mirage-assign-layouts), got none");
        return WalkResult::interrupt();
      }
      auto load = dyn_cast<block::LoadOp>(op);
      if (load && isa<block::LoopOp>(op->getParentOp())) {
        thread::SharedType shared = block::getShared(load.getResult());
        if (shared && !shared.isRing()) {
          op->emitOpError("expected a ring in a loop (mirage-pipeline-loops), got ") << shared;
          return WalkResult::interrupt();
        }
      }
      return WalkResult::advance();
    });
    return failure(walk.wasInterrupted());
  }

  LogicalResult convert(kernel::GraphOp graph) {
    SmallVector<kernel::LaunchOp> launches;
    bool hasAlternatives = false;
    graph.walk([&](Operation *op) {
      if (auto launch = dyn_cast<kernel::LaunchOp>(op))
        launches.push_back(launch);
      hasAlternatives |= isa<kernel::AlternativesOp>(op);
    });
    if (hasAlternatives)
      return graph.emitOpError("expected no kernel.alternatives (mirage-select chooses)");
    if (launches.empty())
      return success();
    getOperation()->setAttr(gpu::GPUDialect::getContainerModuleAttrName(),
                            UnitAttr::get(&getContext()));
    OpBuilder builder(&getContext());
    builder.setInsertionPointAfter(graph);
    SymbolTable symbols(getOperation());
    auto module =
        gpu::GPUModuleOp::create(builder, graph.getLoc(), (graph.getName() + "_kernels").str());
    symbols.insert(module);
    for (auto [number, launch] : llvm::enumerate(launches)) {
      if (failed(checkInput(launch)))
        return failure();
      convert(launch, module, (graph.getName() + "_" + Twine(number)).str());
    }
    if (graph.getForm())
      graph.setForm(kernel::Form::Thread);
    return success();
  }

  void convert(kernel::LaunchOp launch, gpu::GPUModuleOp module, StringRef name) {
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    SmallVector<Type> parameters;
    for (Type type : llvm::concat<const Type>(launch->getOperandTypes(), launch->getResultTypes()))
      parameters.push_back(getParameterType(type));
    auto function = gpu::GPUFuncOp::create(builder, launch.getLoc(), name,
                                           builder.getFunctionType(parameters, {}));
    function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), builder.getUnitAttr());
    int64_t threads = 32 * launch.getSchedule()->getWarps();
    function.setKnownBlockSizeAttr(
        builder.getDenseI32ArrayAttr({static_cast<int32_t>(threads), 1, 1}));

    builder.setInsertionPointToStart(&function.getBody().front());
    ValueRange arguments = function.getArguments();
    size_t numInputs = launch->getNumOperands();
    TileEmitter(launch, builder, arguments.take_front(numInputs), arguments.drop_front(numInputs))
        .run();
    gpu::ReturnOp::create(builder, launch.getLoc());

    builder.setInsertionPoint(launch);
    auto callee = SymbolRefAttr::get(
        module.getNameAttr(), {FlatSymbolRefAttr::get(builder.getContext(), function.getName())});
    auto invoke = kernel::InvokeOp::create(
        builder, launch.getLoc(), launch->getResultTypes(), callee, launch.getInputs(),
        ArrayRef<int64_t>{launch.getNumBlocks(), 1, 1}, ArrayRef<int64_t>{threads, 1, 1},
        /*shared=*/0, DenseI64ArrayAttr());
    launch->replaceAllUsesWith(invoke->getResults());
    launch->erase();
    ++numKernels;
  }
};
} // namespace
