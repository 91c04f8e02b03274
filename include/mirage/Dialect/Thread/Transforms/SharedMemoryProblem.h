//===- SharedMemoryProblem.h - offsets by lifetime --------------*- C++ -*-===//
//
// Dynamic storage allocation: buffers with a size and a lifetime get offsets
// such that two buffers that are alive at the same time do not overlap. The problem and the check
// of a solution are separate from the solvers.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_THREAD_TRANSFORMS_SHAREDMEMORYPROBLEM_H
#define MIRAGE_DIALECT_THREAD_TRANSFORMS_SHAREDMEMORYPROBLEM_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <optional>
#include <string>

namespace mirage::thread {

/// One buffer: alive at the times `start, …, end` (both included).
struct SharedBuffer {
  int64_t bytes;
  int64_t alignment;
  int64_t start;
  int64_t end;

  bool overlapsInTime(const SharedBuffer &other) const {
    return start <= other.end && other.start <= end;
  }
};

/// An instance of the problem.
struct SharedMemoryProblem {
  llvm::SmallVector<SharedBuffer> buffers;

  /// Nothing, or the error in the instance (sizes and alignments must be positive, alignments
  /// powers of two, lifetimes not empty).
  std::optional<std::string> check() const;

  /// Nothing, or the error in the solution.
  std::optional<std::string> verify(llvm::ArrayRef<int64_t> offsets) const;

  /// Bytes that any solution needs: the largest sum of the sizes of buffers
  /// that are alive at one time.
  int64_t getLowerBound() const;
};

/// A solution.
struct SharedMemoryPlan {
  llvm::SmallVector<int64_t> offsets;
  /// Bytes from offset 0 to the end of the last buffer.
  int64_t total = 0;
  /// No solution has a smaller total.
  bool optimal = false;
};

/// Larger buffers first, each at the lowest offset where it fits.
SharedMemoryPlan solveFirstFitBySize(const SharedMemoryProblem &problem);

/// Branch and bound over the order in which buffers are placed, each at the
/// lowest offset where it fits: some order gives an optimal solution, since
/// any solution can be pushed down and read off by offset. Gives up after
/// `maxNodes` placements and returns the best solution so far.
SharedMemoryPlan solveExactly(const SharedMemoryProblem &problem, int64_t maxNodes = 20000);

} // namespace mirage::thread

#endif // MIRAGE_DIALECT_THREAD_TRANSFORMS_SHAREDMEMORYPROBLEM_H
