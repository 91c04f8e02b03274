//===- Mirage.h - C API: registration ---------------------------*- C++ -*-===//

#ifndef MIRAGE_C_MIRAGE_H
#define MIRAGE_C_MIRAGE_H

#include "mlir-c/IR.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Adds all dialects, interfaces, targets and translations that the pipelines
/// need to `registry`.
MLIR_CAPI_EXPORTED void mirageRegisterAllDialects(MlirDialectRegistry registry);

/// Registers all passes and pipelines. Safe to call more than once.
MLIR_CAPI_EXPORTED void mirageRegisterAllPasses(void);

/// Sets the interpreter that passes written in Python run in when a textual
/// pipeline names them; the environment variable MIRAGE_PYTHON wins over it.
MLIR_CAPI_EXPORTED void mirageSetPythonInterpreter(MlirStringRef path);

// Diagnostics that the C API of MLIR cannot emit.
MLIR_CAPI_EXPORTED void mirageEmitWarning(MlirLocation location, MlirStringRef message);
MLIR_CAPI_EXPORTED void mirageEmitRemark(MlirLocation location, MlirStringRef message);

#ifdef __cplusplus
}
#endif

#endif // MIRAGE_C_MIRAGE_H
