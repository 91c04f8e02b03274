//===- Mirage.cpp - C API: registration -----------------------------------===//

#include "mirage-c/Mirage.h"

#include "mirage/PythonPasses/Worker.h"
#include "mirage/Registration/Registration.h"

#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Registration.h"
#include "mlir/CAPI/Support.h"
#include "mlir/IR/Diagnostics.h"

void mirageRegisterAllDialects(MlirDialectRegistry registry) {
  mirage::registerAllDialects(*unwrap(registry));
}

void mirageRegisterAllPasses(void) { mirage::registerAllPasses(); }

void mirageSetPythonInterpreter(MlirStringRef path) { mirage::setPythonInterpreter(unwrap(path)); }

void mirageEmitWarning(MlirLocation location, MlirStringRef message) {
  mlir::emitWarning(unwrap(location)) << unwrap(message);
}

void mirageEmitRemark(MlirLocation location, MlirStringRef message) {
  mlir::emitRemark(unwrap(location)) << unwrap(message);
}
