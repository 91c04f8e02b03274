//===- WaitInRoles.h - roles wait for other kernels each by itself -*- C++ -*-===//

#ifndef MIRAGE_LIB_DIALECT_THREAD_TRANSFORMS_WAITINROLES_H
#define MIRAGE_LIB_DIALECT_THREAD_TRANSFORMS_WAITINROLES_H

#include "mirage/Dialect/Thread/IR/Thread.h"

namespace mirage::thread {

/// Where a kernel's roles wait for the kernels before.
struct RoleWaits {
  DependentWaitOp last;    // of those of the kernel
  bool loadsAhead = false; // whether boxes are asked for before
};

/// Lets each role from `first` on, the first op that may touch what other kernels write, wait
/// by itself. Before that, boxes of tensors are copied whose maps are `ready`, because no
/// other kernel writes them: as many as there are slots for. Nothing where other ops than
/// roles touch memory.
std::optional<RoleWaits> waitInRoles(mlir::Operation *first,
                                     llvm::function_ref<bool(mlir::Value)> ready);

} // namespace mirage::thread

#endif // MIRAGE_LIB_DIALECT_THREAD_TRANSFORMS_WAITINROLES_H
