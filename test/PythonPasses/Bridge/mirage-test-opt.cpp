//===- mirage-test-opt.cpp - mirage-opt with the pass of the bridge's tests -===//

#include "mirage/PythonPasses/Passes.h"
#include "mirage/Registration/Registration.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

namespace mirage {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "Passes.h.inc"
#define GEN_PASS_DEF_MIRAGETESTBRIDGE
#include "Passes.h.inc"

namespace {
struct TestBridge : impl::MirageTestBridgeBase<TestBridge> {
  using MirageTestBridgeBase::MirageTestBridgeBase;

  void runOnOperation() override {
    if (mlir::failed(runPythonPass(*this, getOperation())))
      signalPassFailure();
  }
};
} // namespace
} // namespace mirage

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mirage::registerAllDialects(registry);
  mirage::registerAllPasses();
  mirage::registerTestPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "mirage optimizer driver, with passes of tests\n", registry));
}
