//===- FinishBinaries.cpp - the last steps to PTX -------------------------===//

#include "mirage/Pipelines/Passes.h"

#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;
using namespace mirage;

namespace mirage {
#define GEN_PASS_DEF_FINISHBINARIES
#define GEN_PASS_DEF_PRINTPTX
#include "mirage/Pipelines/Passes.h.inc"
} // namespace mirage

namespace {
struct FinishBinariesPass : mirage::impl::FinishBinariesBase<FinishBinariesPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    for (auto left : module.getOps<gpu::GPUModuleOp>()) {
      left.emitOpError("expected a gpu.binary; the module was not serialized");
      return signalPassFailure();
    }
    for (auto binary : module.getOps<gpu::BinaryOp>())
      removeTimings(binary);
    module.walk([](kernel::GraphOp graph) {
      if (graph.getForm() == kernel::Form::Thread)
        graph.setFormAttr(kernel::FormAttr::get(graph.getContext(), kernel::Form::Binary));
    });
  }

  static void removeTimings(gpu::BinaryOp binary) {
    SmallVector<Attribute> objects;
    for (Attribute attribute : binary.getObjects()) {
      auto object = cast<gpu::ObjectAttr>(attribute);
      objects.push_back(gpu::ObjectAttr::get(object.getContext(), object.getTarget(),
                                             object.getFormat(), object.getObject(),
                                             /*properties=*/DictionaryAttr(), object.getKernels()));
    }
    binary.setObjectsAttr(ArrayAttr::get(binary.getContext(), objects));
  }
};

struct PrintPTXPass : mirage::impl::PrintPTXBase<PrintPTXPass> {
  using PrintPTXBase::PrintPTXBase;

  void runOnOperation() override {
    std::string message;
    std::unique_ptr<llvm::ToolOutputFile> output = openOutputFile(file, &message);
    if (!output) {
      getOperation().emitError("cannot write PTX: ") << message;
      return signalPassFailure();
    }
    for (auto binary : getOperation().getOps<gpu::BinaryOp>())
      for (Attribute object : binary.getObjects())
        output->os() << cast<gpu::ObjectAttr>(object).getObject().getValue();
    output->keep();
    markAllAnalysesPreserved();
  }
};
} // namespace
