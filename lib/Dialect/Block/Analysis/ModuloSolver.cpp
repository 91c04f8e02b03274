//===- ModuloSolver.cpp - the best modulo schedule ------------------------===//

#include "mirage/Dialect/Block/Analysis/ModuloProblem.h"

#include "llvm/ADT/STLExtras.h"

#include <numeric>
#include <tuple>

using namespace mirage::block;

namespace {
/// Stages are chosen first, then one op of the order after the other.
class Search {
public:
  Search(const ModuloProblem &problem, int64_t maxNodes)
      : problem(problem), maxNodes(maxNodes), least(problem.getLeastPeriod()) {}

  std::optional<ModuloSchedule> run() {
    ModuloSchedule schedule;
    chooseStage(schedule);
    int64_t share = std::max<int64_t>(maxNodes / std::max<int64_t>(choices.size(), 1), 1);
    for (ModuloSchedule &choice : choices) {
      left = share;
      isFirst = true;
      chooseNext(choice);
      complete &= left > 0;
    }
    if (best)
      best->optimal = complete;
    return best;
  }

private:
  static int64_t countLate(const ModuloSchedule &schedule) {
    return std::accumulate(schedule.stages.begin(), schedule.stages.end(), int64_t(0));
  }

  static auto getRank(const ModuloSchedule &schedule) {
    return std::make_tuple(schedule.period, schedule.chain, countLate(schedule));
  }

  /// Collects the stages that dependences allow.
  void chooseStage(ModuloSchedule &schedule) {
    size_t op = schedule.stages.size();
    if (op == problem.ops.size()) {
      choices.push_back(schedule);
      return;
    }
    for (int64_t stage = 0; stage <= problem.ops[op].lastStage; ++stage) {
      schedule.stages.push_back(stage);
      if (llvm::all_of(problem.edges, [&](const ModuloProblem::Edge &edge) {
            return std::max(edge.from, edge.to) != op ||
                   edge.distance + schedule.stages[edge.to] >= schedule.stages[edge.from];
          }))
        chooseStage(schedule);
      schedule.stages.pop_back();
    }
  }

  /// Whether all values of the same round that the op reads are there.
  bool isReady(size_t op, const ModuloSchedule &schedule) const {
    return llvm::all_of(problem.edges, [&](const ModuloProblem::Edge &edge) {
      return edge.to != op || llvm::is_contained(schedule.order, edge.from) ||
             edge.distance + schedule.stages[op] > schedule.stages[edge.from];
    });
  }

  /// The ops that may come next: products first, those of earlier steps after the others.
  llvm::SmallVector<size_t> getReady(const ModuloSchedule &schedule) const {
    llvm::SmallVector<size_t> ready;
    for (size_t op = 0; op < problem.ops.size(); ++op)
      if (!llvm::is_contained(schedule.order, op) && isReady(op, schedule))
        ready.push_back(op);
    auto getKey = [&](size_t op) {
      return std::make_pair(!problem.ops[op].isProduct,
                            problem.ops[op].isProduct ? schedule.stages[op] : 0);
    };
    llvm::stable_sort(ready, [&](size_t a, size_t b) { return getKey(a) < getKey(b); });
    return ready;
  }

  void chooseNext(ModuloSchedule &schedule) {
    if (schedule.order.size() == problem.ops.size()) {
      consider(schedule);
      isFirst = false;
      return;
    }
    // No round is shorter than the work of the busier unit for one group.
    if (best &&
        std::make_tuple(least, least / problem.groups, countLate(schedule)) >= getRank(*best))
      return;
    for (size_t op : getReady(schedule)) {
      if (!isFirst && --left <= 0)
        return;
      schedule.order.push_back(op);
      chooseNext(schedule);
      schedule.order.pop_back();
    }
  }

  void consider(ModuloSchedule schedule) {
    if (problem.verify(schedule))
      return;
    schedule.chain = problem.getChain(schedule);
    schedule.period = std::max(schedule.chain, least);
    schedule.registers = problem.getRegisters(schedule);
    if (!best || getRank(schedule) < getRank(*best))
      best = std::move(schedule);
  }

  const ModuloProblem &problem;
  int64_t maxNodes, least, left = 0;
  /// Whether the first order of these stages is still to be completed; whether all were tried.
  bool isFirst = true, complete = true;
  llvm::SmallVector<ModuloSchedule> choices;
  std::optional<ModuloSchedule> best;
};
} // namespace

std::optional<ModuloSchedule> mirage::block::solveModulo(const ModuloProblem &problem,
                                                         int64_t maxNodes) {
  return Search(problem, maxNodes).run();
}
