//===- SharedMemoryProblem.cpp - offsets by lifetime ----------------------===//

#include "mirage/Dialect/Thread/Transforms/SharedMemoryProblem.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <numeric>

using namespace mirage::thread;

std::optional<std::string> SharedMemoryProblem::check() const {
  for (auto [index, buffer] : llvm::enumerate(buffers)) {
    std::string name = "buffer " + std::to_string(index);
    if (buffer.bytes <= 0)
      return name + ": expected a positive size, got " + std::to_string(buffer.bytes);
    if (buffer.alignment <= 0 || !llvm::isPowerOf2_64(buffer.alignment))
      return name + ": expected a power of two as alignment, got " +
             std::to_string(buffer.alignment);
    if (buffer.start > buffer.end)
      return name + ": expected a lifetime, got [" + std::to_string(buffer.start) + ", " +
             std::to_string(buffer.end) + "]";
  }
  return std::nullopt;
}

std::optional<std::string> SharedMemoryProblem::verify(llvm::ArrayRef<int64_t> offsets) const {
  if (offsets.size() != buffers.size())
    return "expected " + std::to_string(buffers.size()) + " offsets, got " +
           std::to_string(offsets.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (offsets[i] < 0 || offsets[i] % buffers[i].alignment != 0)
      return "buffer " + std::to_string(i) + ": expected a multiple of " +
             std::to_string(buffers[i].alignment) + " as offset, got " + std::to_string(offsets[i]);
    for (size_t j = 0; j < i; ++j)
      if (buffers[i].overlapsInTime(buffers[j]) && offsets[i] < offsets[j] + buffers[j].bytes &&
          offsets[j] < offsets[i] + buffers[i].bytes)
        return "buffers " + std::to_string(j) + " and " + std::to_string(i) +
               " overlap in time and space";
  }
  return std::nullopt;
}

int64_t SharedMemoryProblem::getLowerBound() const {
  int64_t bound = 0;
  for (const SharedBuffer &at : buffers) {
    int64_t alive = 0;
    for (const SharedBuffer &buffer : buffers)
      if (buffer.start <= at.start && at.start <= buffer.end)
        alive += buffer.bytes;
    bound = std::max(bound, alive);
  }
  return bound;
}

/// Lowest offset where `index` does not collide with a placed buffer (offset
/// -1: not placed).
static int64_t getLowestOffset(const SharedMemoryProblem &problem, llvm::ArrayRef<int64_t> offsets,
                               size_t index) {
  const SharedBuffer &buffer = problem.buffers[index];
  llvm::SmallVector<std::pair<int64_t, int64_t>> taken;
  for (auto [other, offset] : llvm::zip_equal(problem.buffers, offsets))
    if (offset >= 0 && buffer.overlapsInTime(other))
      taken.emplace_back(offset, offset + other.bytes);
  llvm::sort(taken);
  int64_t candidate = 0;
  for (auto [begin, end] : taken) {
    if (candidate + buffer.bytes <= begin)
      break;
    candidate = std::max<int64_t>(candidate, llvm::alignTo(end, buffer.alignment));
  }
  return candidate;
}

static int64_t getTotal(const SharedMemoryProblem &problem, llvm::ArrayRef<int64_t> offsets) {
  int64_t total = 0;
  for (auto [buffer, offset] : llvm::zip_equal(problem.buffers, offsets))
    if (offset >= 0)
      total = std::max(total, offset + buffer.bytes);
  return total;
}

SharedMemoryPlan mirage::thread::solveFirstFitBySize(const SharedMemoryProblem &problem) {
  llvm::SmallVector<size_t> order(problem.buffers.size());
  std::iota(order.begin(), order.end(), 0);
  llvm::stable_sort(order, [&](size_t a, size_t b) {
    return problem.buffers[a].bytes > problem.buffers[b].bytes;
  });
  SharedMemoryPlan plan;
  plan.offsets.assign(problem.buffers.size(), -1);
  for (size_t index : order)
    plan.offsets[index] = getLowestOffset(problem, plan.offsets, index);
  plan.total = getTotal(problem, plan.offsets);
  plan.optimal = plan.total <= problem.getLowerBound();
  return plan;
}

namespace {
/// State of the branch and bound.
struct ExactSearch {
  const SharedMemoryProblem &problem;
  SharedMemoryPlan best;
  int64_t bound;
  int64_t nodesLeft;
  llvm::SmallVector<int64_t> offsets;

  bool isDone() const { return best.total <= bound || nodesLeft <= 0; }

  // `last` is the offset of the buffer that was placed last: orders by
  // ascending offset are enough.
  void visit(size_t placed, int64_t last, int64_t total) {
    if (placed == offsets.size()) {
      best.offsets = offsets;
      best.total = total;
      return;
    }
    for (size_t index = 0; index < offsets.size() && !isDone(); ++index) {
      if (offsets[index] >= 0)
        continue;
      --nodesLeft;
      int64_t offset = getLowestOffset(problem, offsets, index);
      int64_t newTotal = std::max(total, offset + problem.buffers[index].bytes);
      if (offset < last || newTotal >= best.total)
        continue;
      offsets[index] = offset;
      visit(placed + 1, offset, newTotal);
      offsets[index] = -1;
    }
  }
};
} // namespace

SharedMemoryPlan mirage::thread::solveExactly(const SharedMemoryProblem &problem,
                                              int64_t maxNodes) {
  ExactSearch search{problem, solveFirstFitBySize(problem), problem.getLowerBound(), maxNodes, {}};
  if (search.best.optimal)
    return search.best;
  search.offsets.assign(problem.buffers.size(), -1);
  search.visit(0, 0, 0);
  search.best.optimal = search.nodesLeft > 0 || search.best.total <= search.bound;
  return search.best;
}
