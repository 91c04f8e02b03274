//===- mirage-opt.cpp - runs passes on MLIR -------------------------------===//

#include "mirage/Registration/Registration.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mirage::registerAllDialects(registry);
  mirage::registerAllPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "mirage optimizer driver\n", registry));
}
