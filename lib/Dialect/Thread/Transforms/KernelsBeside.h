//===- KernelsBeside.h - kernels that may run at once -----------*- C++ -*-===//

#ifndef MIRAGE_DIALECT_THREAD_TRANSFORMS_KERNELSBESIDE_H
#define MIRAGE_DIALECT_THREAD_TRANSFORMS_KERNELSBESIDE_H

#include "mirage/Dialect/Kernel/IR/Kernel.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace mirage::thread {

/// Whether an op gives names to memory, or to parts of it, and runs nothing.
bool isViewOfMemory(mlir::Operation &op);

/// The kernels of a graph that may work while those before them run, each with the number of those.
///
/// When a kernel starts, the one before it runs, and with it those that that one did not wait for
/// itself. A kernel that may be `late` works beside all of them if no memory that one of them
/// writes is touched by another, and waits for them at its end. Any other kernel waits first, so
/// that only this kernel runs when the next one starts.
llvm::DenseMap<mlir::Operation *, int64_t>
kernelsBeside(kernel::GraphOp graph, llvm::function_ref<bool(kernel::InvokeOp)> mayBeLate);

} // namespace mirage::thread

#endif // MIRAGE_DIALECT_THREAD_TRANSFORMS_KERNELSBESIDE_H
