//===- Mirage.cpp - C API: registration -----------------------------------===//

#include "mirage-c/Mirage.h"

#include "mirage/Dialect/Block/IR/Block.h"
#include "mirage/Dialect/Kernel/IR/Kernel.h"
#include "mirage/Dialect/Thread/IR/Thread.h"
#include "mirage/PythonPasses/Worker.h"
#include "mirage/Registration/Registration.h"

#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Registration.h"
#include "mlir/CAPI/Support.h"

MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Kernel, kernel, mirage::kernel::KernelDialect)
MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Block, block, mirage::block::BlockDialect)
MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Thread, thread, mirage::thread::ThreadDialect)

void mirageRegisterAllDialects(MlirDialectRegistry registry) {
  mirage::registerAllDialects(*unwrap(registry));
}

void mirageRegisterAllPasses(void) { mirage::registerAllPasses(); }

void mirageSetPythonInterpreter(MlirStringRef path) { mirage::setPythonInterpreter(unwrap(path)); }
