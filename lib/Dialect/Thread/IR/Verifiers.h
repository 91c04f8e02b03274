//===- Verifiers.h - checks that verifiers of several files make *- C++ -*-===//

#ifndef MIRAGE_LIB_DIALECT_THREAD_IR_VERIFIERS_H
#define MIRAGE_LIB_DIALECT_THREAD_IR_VERIFIERS_H

#include "mirage/Dialect/Thread/IR/Thread.h"

namespace mirage::thread {

/// Checks that a type in shared memory is one tile and not a ring of them.
llvm::LogicalResult verifySlot(mlir::Operation *op, SharedType type);

/// Checks that a fragment, which the message calls `what`, has no copies that remain to be summed.
llvm::LogicalResult verifyNotPartial(mlir::Operation *op, FragmentType type, llvm::StringRef what);

/// Groups of four warps of the role around an op; it is an error if it has none.
llvm::FailureOr<int64_t> getGroups(mlir::Operation *op);

} // namespace mirage::thread

#endif // MIRAGE_LIB_DIALECT_THREAD_IR_VERIFIERS_H
