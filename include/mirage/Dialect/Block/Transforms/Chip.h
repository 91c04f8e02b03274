//===- Chip.h - what a GPU can do and how much it has -----------*- C++ -*-===//
//
// The one table of capabilities. Passes ask it; they never compare chip names.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_BLOCK_TRANSFORMS_CHIP_H
#define MIRAGE_DIALECT_BLOCK_TRANSFORMS_CHIP_H

#include "mlir/IR/Location.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/LogicalResult.h"

#include <cstdint>

namespace mirage {

/// Limits and mechanisms of one compilation target.
struct Chip {
  llvm::StringRef name;
  /// Dynamic shared memory that one block can opt in to, in bytes.
  int64_t maxSharedBytes;
  /// Threads of a block.
  int64_t maxThreads;
  /// 32-bit registers of one thread.
  int64_t maxRegisters;
  /// Asynchronous copies from global to shared memory (cp.async).
  bool hasAsyncCopy;
  /// Tensor memory accelerator, mbarrier transactions and clusters.
  bool hasTensorCopy;
  /// Matrix products of four warps from shared memory (wgmma).
  bool hasWarpgroupMma;

  /// The row of the table for `name`, or nullptr.
  static const Chip *find(llvm::StringRef name);

  /// The row of the table for `name`; emits an error at `loc` that lists the
  /// known chips when there is none.
  static llvm::FailureOr<const Chip *> get(mlir::Location loc, llvm::StringRef name);
};

} // namespace mirage

#endif // MIRAGE_DIALECT_BLOCK_TRANSFORMS_CHIP_H
