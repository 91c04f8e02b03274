//===- WarpNumber.h - the number of a warp, the same for all its threads --===//
//
// The assembler assumes that a number derived from a thread's number may differ within a warp: it
// does not see that threads take branches on it together, and keeps dependent values in each
// thread's registers. The descriptors of warpgroups' instructions, which must be in uniform
// registers, are then computed by every thread and moved there at each step. This is avoided if the
// first thread of a warp broadcasts the number to the others. Kernels with roles do so once.
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
