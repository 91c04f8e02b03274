//===- mirage-lsp-server.cpp - language server for our dialects -----------===//

#include "mirage/Registration/Registration.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "llvm/Support/LogicalResult.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mirage::registerAllDialects(registry);
  return failed(mlir::MlirLspServerMain(argc, argv, registry));
}
