//===- KernelsBeside.h - kernels that may run at once -----------*- C++ -*-===//

#ifndef MIRAGE_DIALECT_THREAD_TRANSFORMS_KERNELSBESIDE_H
#define MIRAGE_DIALECT_THREAD_TRANSFORMS_KERNELSBESIDE_H

#include "mirage/Dialect/Kernel/IR/Kernel.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace mirage::thread {

/// Whether an op gives names to memory, or to parts of it, and runs nothing.
bool isViewOfMemory(mlir::Operation &op);

/// The kernels of a graph that may run at the same time as preceding ones, each with the number of
/// these.
///
/// When a kernel starts, the previous one runs, together with those for which the previous one did
/// not wait. A kernel that may be `late` runs at the same time as all of them, if none of them
/// touches memory that another one writes, and waits for them at its end. Any other kernel waits
/// first, so that only this kernel runs when the next one starts.
llvm::DenseMap<mlir::Operation *, int64_t>
kernelsBeside(kernel::GraphOp graph, llvm::function_ref<bool(kernel::InvokeOp)> mayBeLate);

} // namespace mirage::thread

#endif // MIRAGE_DIALECT_THREAD_TRANSFORMS_KERNELSBESIDE_H
