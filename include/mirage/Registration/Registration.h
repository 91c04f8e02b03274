//===- Registration.h - everything that a tool registers --------*- C++ -*-===//
//
// One list for mirage-opt, mirage-lsp-server and the Python bindings, so that a
// module or a pipeline means the same in all of them.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_REGISTRATION_REGISTRATION_H
#define MIRAGE_REGISTRATION_REGISTRATION_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace mirage {

/// Adds the dialects of this project and the upstream ones that its pipelines
/// use, with the interfaces, targets and translations that lowering to PTX
/// needs.
void registerAllDialects(mlir::DialectRegistry &registry);

/// Registers the passes and pipelines of this project and the upstream passes
/// that its pipelines use. Safe to call more than once.
void registerAllPasses();

} // namespace mirage

#endif // MIRAGE_REGISTRATION_REGISTRATION_H
