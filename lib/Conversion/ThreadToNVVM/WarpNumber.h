//===- WarpNumber.h - the number of a warp, the same for all its threads --===//
//
// The assembler takes a number that follows from a thread's number for one that
// threads of a warp may differ in: it does not see that they take branches on it
// together, and keeps what depends on it in each thread's registers. What instructions
// of warpgroups need in uniform registers, their descriptors, is then computed by every
// thread and moved there at each step. It knows better where the first thread of
// a warp tells the number to the others. Kernels with roles do so once.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_LIB_CONVERSION_THREADTONVVM_WARPNUMBER_H
#define MIRAGE_LIB_CONVERSION_THREADTONVVM_WARPNUMBER_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Transforms/DialectConversion.h"

namespace mirage::thread {

/// Begins a kernel with roles with the number of the warp in its block, as i32.
void createWarpNumber(mlir::gpu::GPUFuncOp kernel);

/// That number in the kernel around `op`; null in one without roles.
mlir::Value getWarpNumber(mlir::Operation *op);

/// For `gpu.subgroup_id`.
void populateWarpNumberPatterns(const mlir::TypeConverter &converter,
                                mlir::RewritePatternSet &patterns);

} // namespace mirage::thread

#endif // MIRAGE_LIB_CONVERSION_THREADTONVVM_WARPNUMBER_H
