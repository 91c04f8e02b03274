//===- mirage-test-solvers.cpp - solvers against brute force --------------===//
//
// Random small problems, the same in each run: what a solver gives must be a
// solution, cost what it says, and be no worse than brute force where it says
// that nothing is better. Run by lit (shared-memory.test, layouts.test, schedules.test).
//
//===----------------------------------------------------------------------===//

#include "mirage/Dialect/Block/Analysis/AssignmentProblem.h"
#include "mirage/Dialect/Block/Analysis/ModuloProblem.h"
#include "mirage/Dialect/Thread/Transforms/SharedMemoryProblem.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <numeric>
#include <random>

using namespace mirage;

namespace {

using Random = std::mt19937;

/// A number from `low` to `high`. (Distributions of the standard library differ
/// between implementations.)
int64_t draw(Random &random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % static_cast<uint32_t>(high - low + 1));
}

/// Counts what fails, and says it.
struct Report {
  int problems = 0, failures = 0;

  void expect(bool holds, const llvm::Twine &what) {
    if (holds)
      return;
    ++failures;
    llvm::outs() << "problem " << problems << ": " << what.str() << "\n";
  }
};

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

constexpr int64_t unit = 8;

thread::SharedMemoryProblem drawBuffers(Random &random) {
  thread::SharedMemoryProblem problem;
  int64_t count = draw(random, 1, 5);
  for (int64_t i = 0; i < count; ++i) {
    int64_t start = draw(random, 0, 5);
    problem.buffers.push_back(
        {unit * draw(random, 1, 4), unit << draw(random, 0, 2), start, start + draw(random, 0, 3)});
  }
  return problem;
}

/// The least total of all placements at all aligned offsets below `limit`.
int64_t leastTotal(const thread::SharedMemoryProblem &problem,
                   llvm::SmallVectorImpl<int64_t> &offsets, int64_t total, int64_t limit) {
  size_t index = offsets.size();
  if (index == problem.buffers.size())
    return total;
  const thread::SharedBuffer &buffer = problem.buffers[index];
  int64_t best = limit;
  for (int64_t offset = 0; offset + buffer.bytes < best; offset += buffer.alignment) {
    bool collides = false;
    for (size_t other = 0; other < index; ++other) {
      const thread::SharedBuffer &there = problem.buffers[other];
      collides |= buffer.overlapsInTime(there) && offset < offsets[other] + there.bytes &&
                  offsets[other] < offset + buffer.bytes;
    }
    if (collides)
      continue;
    offsets.push_back(offset);
    int64_t found = leastTotal(problem, offsets, std::max(total, offset + buffer.bytes), best);
    offsets.pop_back();
    best = std::min(best, found);
  }
  return best;
}

void testSharedMemory(Report &report) {
  Random random(1);
  int exact = 0, firstFitIsWorse = 0;
  for (; report.problems < 3000; ++report.problems) {
    thread::SharedMemoryProblem problem = drawBuffers(random);
    report.expect(!problem.check(), "is well-posed");
    int64_t limit = 1;
    for (const thread::SharedBuffer &buffer : problem.buffers)
      limit += buffer.bytes + buffer.alignment;
    llvm::SmallVector<int64_t> offsets;
    int64_t least = leastTotal(problem, offsets, 0, limit);
    report.expect(problem.getLowerBound() <= least, "the lower bound is none");
    for (bool exactly : {false, true}) {
      thread::SharedMemoryPlan plan =
          exactly ? thread::solveExactly(problem) : thread::solveFirstFitBySize(problem);
      if (auto wrong = problem.verify(plan.offsets))
        report.expect(false, "not a solution: " + *wrong);
      int64_t total = 0;
      for (size_t i = 0; i < plan.offsets.size(); ++i)
        total = std::max(total, plan.offsets[i] + problem.buffers[i].bytes);
      report.expect(total == plan.total, "another total than it says");
      report.expect(total >= least, "less than the least");
      report.expect(!plan.optimal || total == least, "called optimal, but " + llvm::Twine(least) +
                                                         " bytes are enough instead of " +
                                                         llvm::Twine(total));
      exact += exactly && plan.optimal;
      firstFitIsWorse += !exactly && total > least;
    }
    // Without time to search it is still a solution.
    thread::SharedMemoryPlan hurried = thread::solveExactly(problem, 1);
    report.expect(!problem.verify(hurried.offsets), "not a solution in little time");
    report.expect(!hurried.optimal || hurried.total == least, "optimal in little time");
  }
  report.expect(exact == report.problems, "all are small enough for the exact solver");
  report.expect(firstFitIsWorse > 0, "some are too hard for first fit");
}

void testIllPosedMemory() {
  for (const thread::SharedBuffer &buffer :
       {thread::SharedBuffer{0, 8, 0, 1}, thread::SharedBuffer{8, 12, 0, 1},
        thread::SharedBuffer{8, 8, 2, 1}, thread::SharedBuffer{8, 8, 0, 1}}) {
    thread::SharedMemoryProblem problem;
    problem.buffers.push_back(buffer);
    llvm::outs() << problem.check().value_or("well-posed") << "\n";
  }
  thread::SharedMemoryProblem problem;
  problem.buffers.push_back({16, 8, 0, 1});
  problem.buffers.push_back({16, 8, 1, 2});
  for (auto offsets : {llvm::SmallVector<int64_t>{0}, {0, 4}, {0, 8}, {0, 16}})
    llvm::outs() << problem.verify(offsets).value_or("a solution") << "\n";
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

block::AssignmentProblem drawChoices(Random &random) {
  block::AssignmentProblem problem;
  int64_t count = draw(random, 1, 6);
  // Small integers: sums are exact, ties occur. Some choices are forbidden.
  auto cost = [&] {
    return draw(random, 0, 7) == 0 ? block::forbidden : static_cast<double>(draw(random, 0, 9));
  };
  for (int64_t i = 0; i < count; ++i) {
    block::AssignmentProblem::Variable variable;
    for (int64_t choices = draw(random, 1, 4); choices > 0; --choices)
      variable.costs.push_back(cost());
    problem.variables.push_back(std::move(variable));
  }
  for (int64_t i = count > 1 ? draw(random, 0, 2 * count) : 0; i > 0; --i) {
    size_t first = draw(random, 0, count - 1), second = draw(random, 0, count - 2);
    second += second >= first;
    block::AssignmentProblem::Factor factor{first, second, {}};
    size_t size = problem.variables[first].costs.size() * problem.variables[second].costs.size();
    for (size_t pair = 0; pair < size; ++pair)
      factor.costs.push_back(cost());
    problem.factors.push_back(std::move(factor));
  }
  return problem;
}

double leastCost(const block::AssignmentProblem &problem, llvm::SmallVectorImpl<size_t> &choices) {
  if (choices.size() == problem.variables.size())
    return problem.getCost(choices);
  double best = std::numeric_limits<double>::infinity();
  for (size_t choice = 0; choice < problem.variables[choices.size()].costs.size(); ++choice) {
    choices.push_back(choice);
    best = std::min(best, leastCost(problem, choices));
    choices.pop_back();
  }
  return best;
}

void testAssignment(Report &report) {
  Random random(2);
  int infeasible = 0, descentIsWorse = 0;
  for (; report.problems < 3000; ++report.problems) {
    block::AssignmentProblem problem = drawChoices(random);
    report.expect(!problem.check(), "is well-posed");
    llvm::SmallVector<size_t> choices;
    double least = leastCost(problem, choices);
    infeasible += least >= block::forbidden;
    auto eliminated = block::solveByElimination(problem, 1 << 20);
    report.expect(eliminated.has_value(), "tables are small enough");
    report.expect(!block::solveByElimination(problem, 0), "no table has no entries");
    for (const block::Assignment &found : {*eliminated, block::solveByDescent(problem)}) {
      // What has a solution is solved, what has none is not.
      if (least < block::forbidden && found.optimal)
        report.expect(!problem.verify(found.choices), "a forbidden choice is taken");
      if (least >= block::forbidden)
        report.expect(problem.verify(found.choices).has_value(), "solved what has no solution");
      report.expect(found.cost == problem.getCost(found.choices), "another cost than it says");
      report.expect(found.cost >= least, "less than the least");
      report.expect(!found.optimal || found.cost == least, "called optimal, but is not");
      for (size_t variable = 0; variable < problem.variables.size(); ++variable)
        for (size_t choice = 0; choice < problem.variables[variable].costs.size(); ++choice) {
          llvm::SmallVector<size_t> changed = found.choices;
          changed[variable] = choice;
          report.expect(problem.getCost(changed) >= found.cost, "one change makes it better");
        }
      descentIsWorse += found.cost > least;
    }
    report.expect(eliminated->optimal, "elimination is exact");
  }
  report.expect(infeasible > 0, "some have no solution");
  report.expect(descentIsWorse > 0, "some are too hard for descent");
}

void testIllPosedAssignment() {
  auto say = [](const block::AssignmentProblem &problem) {
    llvm::outs() << problem.check().value_or("well-posed") << "\n";
  };
  block::AssignmentProblem problem;
  problem.variables.push_back({{}});
  say(problem);
  problem.variables = {{{0.0, block::forbidden}}, {{1.0}}};
  problem.factors = {{0, 0, {0.0}}};
  say(problem);
  problem.factors = {{0, 1, {0.0}}};
  say(problem);
  problem.factors = {{0, 1, {0.0, 0.0}}};
  say(problem);
  for (auto choices : {llvm::SmallVector<size_t>{0}, {0, 1}, {1, 0}, {0, 0}})
    llvm::outs() << problem.verify(choices).value_or("a solution") << "\n";
}

//===----------------------------------------------------------------------===//
// Schedules of loop bodies
//===----------------------------------------------------------------------===//

block::ModuloProblem drawBody(Random &random) {
  block::ModuloProblem problem;
  int64_t count = draw(random, 1, 5);
  for (int64_t i = 0; i < count; ++i) {
    bool isProduct = draw(random, 0, 2) == 0;
    problem.ops.push_back({isProduct, draw(random, 0, 5), draw(random, 0, 3),
                           isProduct ? draw(random, 0, 1) : 0, draw(random, 0, 1) == 0,
                           isProduct && draw(random, 0, 1) == 0});
    for (int64_t from = 0; from < i; ++from)
      if (draw(random, 0, 1))
        problem.edges.push_back({size_t(from), size_t(i), 0});
    if (isProduct && draw(random, 0, 1))
      problem.edges.push_back({size_t(i), size_t(draw(random, 0, i)), 1});
  }
  problem.groups = draw(random, 1, 2);
  problem.registers = draw(random, 2, 9);
  return problem;
}

/// Period and chain of the best schedule, of all stages and orders.
std::optional<std::pair<int64_t, int64_t>> bestRound(const block::ModuloProblem &problem) {
  std::optional<std::pair<int64_t, int64_t>> best;
  size_t count = problem.ops.size();
  for (size_t late = 0; late < size_t(1) << count; ++late) {
    block::ModuloSchedule schedule;
    for (size_t op = 0; op < count; ++op)
      schedule.stages.push_back(int64_t(late >> op & 1));
    schedule.order.resize(count);
    std::iota(schedule.order.begin(), schedule.order.end(), size_t(0));
    do {
      if (problem.verify(schedule))
        continue;
      int64_t chain = problem.getChain(schedule);
      std::pair<int64_t, int64_t> round{std::max(chain, problem.getLeastPeriod()), chain};
      best = std::min(best.value_or(round), round);
    } while (std::next_permutation(schedule.order.begin(), schedule.order.end()));
  }
  return best;
}

void testSchedules(Report &report) {
  Random random(3);
  int infeasible = 0, late = 0, hurriedIsWorse = 0;
  for (; report.problems < 1000; ++report.problems) {
    block::ModuloProblem problem = drawBody(random);
    report.expect(!problem.check(), "is well-posed");
    auto best = bestRound(problem);
    auto found = block::solveModulo(problem), hurried = block::solveModulo(problem, 1);
    report.expect(found.has_value() == best.has_value(), "solved what has no solution, or not");
    infeasible += !best;
    if (!found)
      continue;
    report.expect(!problem.verify(*found), "not a solution");
    report.expect(found->optimal, "all are small enough for the solver");
    report.expect(found->period == best->first && found->chain == best->second,
                  "called optimal, but is not");
    late += llvm::is_contained(found->stages, 1);
    // Without time to search it is still a solution.
    report.expect(!hurried || !problem.verify(*hurried), "not a solution in little time");
    hurriedIsWorse += !hurried || hurried->chain > best->second;
  }
  report.expect(infeasible > 0, "some have no solution");
  report.expect(late > 0, "some have late products");
  report.expect(hurriedIsWorse > 0, "some are too hard for the first order");
}

/// A product, ops on its result, and a product of what they give (attention).
void testAttention() {
  block::ModuloProblem problem;
  problem.ops = {{true, 512, 64, 0, false}, {false, 800, 64}, {false, 64, 32}, {true, 512, 0, 1}};
  problem.edges = {{0, 1}, {1, 2}, {2, 3}, {3, 2, 1}};
  for (int64_t registers : {128, 96, 64}) {
    problem.registers = registers;
    auto found = block::solveModulo(problem);
    llvm::outs() << registers << " registers: ";
    if (!found) {
      llvm::outs() << "no schedule\n";
      continue;
    }
    llvm::outs() << "stage " << found->stages[3] << ", order";
    for (size_t op : found->order)
      llvm::outs() << " " << op;
    llvm::outs() << ", " << found->chain << " clocks, " << found->registers << " registers\n";
  }
  auto say = [&](std::initializer_list<int64_t> stages, std::initializer_list<size_t> order) {
    auto wrong = problem.verify({stages, order});
    llvm::outs() << (wrong ? "op " + std::to_string(wrong->op) + ": " + wrong->message
                           : std::string("a solution"))
                 << "\n";
  };
  problem.registers = 112;
  say({0, 0, 0}, {0, 1, 2, 3});
  say({0, 0, 0, 0}, {0, 1, 2, 2});
  say({0, 1, 0, 0}, {0, 1, 2, 3});
  say({0, 0, 0, 0}, {0, 2, 1, 3});
  say({0, 0, 0, 1}, {0, 1, 2, 3});
  say({0, 0, 0, 1}, {0, 3, 1, 2});
  problem.registers = 32;
  say({0, 0, 0, 0}, {0, 1, 2, 3});
  problem.edges.push_back({2, 1, 0});
  llvm::outs() << problem.check().value_or("well-posed") << "\n";
}

} // namespace

int main(int argc, char **argv) {
  llvm::StringRef what = argc == 2 ? argv[1] : "";
  Report report;
  if (what == "shared-memory") {
    testSharedMemory(report);
    testIllPosedMemory();
  } else if (what == "layouts") {
    testAssignment(report);
    testIllPosedAssignment();
  } else if (what == "schedules") {
    testSchedules(report);
    testAttention();
  } else {
    llvm::errs() << "usage: mirage-test-solvers shared-memory | layouts | schedules\n";
    return 2;
  }
  llvm::outs() << report.problems << " problems, " << report.failures << " failures\n";
  return report.failures != 0;
}
