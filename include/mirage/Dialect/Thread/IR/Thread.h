//===- Thread.h - the thread dialect ----------------------------*- C++ -*-===//

#ifndef MIRAGE_DIALECT_THREAD_IR_THREAD_H
#define MIRAGE_DIALECT_THREAD_IR_THREAD_H

#include "mirage/Dialect/Common/ScalarOps.h"
#include "mirage/Dialect/Thread/IR/LinearLayout.h"
#include "mirage/Dialect/Thread/IR/Needs.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "mirage/Dialect/Thread/IR/ThreadDialect.h.inc"
#include "mirage/Dialect/Thread/IR/ThreadEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "mirage/Dialect/Thread/IR/ThreadAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "mirage/Dialect/Thread/IR/ThreadTypes.h.inc"

#include "mirage/Dialect/Thread/IR/ThreadOpInterfaces.h.inc"
#define GET_OP_CLASSES
#include "mirage/Dialect/Thread/IR/ThreadOps.h.inc"

namespace mirage::thread {

/// Attribute of a kernel's parameter, and of ops that access one: a divisor of its address, in
/// bytes.
constexpr llvm::StringLiteral kAlignAttr = "thread.align";
/// Attribute of a kernel's parameter that is a dynamic tensor: its elements for each unit of the
/// size, which is a separate parameter. Nothing beyond the elements of the actual size is read or
/// written.
constexpr llvm::StringLiteral kUnitAttr = "thread.unit";
/// Attribute of a kernel's i32 parameter: it is the size.
constexpr llvm::StringLiteral kSizeAttr = "thread.size";
/// Discardable attribute of a kernel whose blocks are several packed ones (`mirage-pack-blocks`):
/// their number. Each has an equal share of the block's warps.
constexpr llvm::StringLiteral kPackedAttr = "thread.packed";
/// Attribute of a kernel's parameter whose elements lie between those of another one, or that has
/// such a parameter: the number of the other one (or its own), and the elements from the first
/// element there to the first one here, in the same memory.
constexpr llvm::StringLiteral kInterleavedAttr = "thread.interleaved";

/// Bytes of the widest access of a thread to device memory.
inline constexpr int64_t kVectorBytes = 16;
/// Columns of a row in vectors of `width` elements, for any start within a vector.
inline int64_t countWholeColumns(int64_t columns, int64_t width) {
  return (columns - (width - 1)) / width * width;
}

/// Threads of a group of four warps, and rows of a tile that one owns.
inline constexpr int64_t kGroupThreads = 128, kGroupRows = 64;
/// Rows after which every swizzle repeats: parts of tiles are copied in such units.
inline constexpr int64_t kPartRows = 8;

/// Warps that execute `op`: those of the enclosing `thread.warps`, else of the
/// enclosing `gpu.func` (known_block_size / 32). Nullopt outside both.
std::optional<int64_t> getNumWarps(mlir::Operation *op);

} // namespace mirage::thread

#endif // MIRAGE_DIALECT_THREAD_IR_THREAD_H
