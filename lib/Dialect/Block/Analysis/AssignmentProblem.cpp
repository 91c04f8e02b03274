//===- AssignmentProblem.cpp - choices with pairwise costs ----------------===//

#include "mirage/Dialect/Block/Analysis/AssignmentProblem.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace mirage::block;

std::optional<std::string> AssignmentProblem::check() const {
  for (size_t i = 0; i < variables.size(); ++i)
    if (variables[i].costs.empty())
      return "variable " + std::to_string(i) + ": expected at least one choice, got none";
  for (size_t i = 0; i < factors.size(); ++i) {
    const Factor &factor = factors[i];
    if (factor.first >= variables.size() || factor.second >= variables.size() ||
        factor.first == factor.second)
      return "factor " + std::to_string(i) + ": expected two different variables";
    size_t size = variables[factor.first].costs.size() * variables[factor.second].costs.size();
    if (factor.costs.size() != size)
      return "factor " + std::to_string(i) + ": expected " + std::to_string(size) + " costs, got " +
             std::to_string(factor.costs.size());
  }
  return std::nullopt;
}

double AssignmentProblem::getCost(llvm::ArrayRef<size_t> choices) const {
  double cost = 0;
  for (size_t i = 0; i < variables.size(); ++i)
    cost += variables[i].costs[choices[i]];
  for (const Factor &factor : factors)
    cost += factor.costs[choices[factor.first] * variables[factor.second].costs.size() +
                         choices[factor.second]];
  return cost;
}

std::optional<std::string> AssignmentProblem::verify(llvm::ArrayRef<size_t> choices) const {
  if (choices.size() != variables.size())
    return "expected " + std::to_string(variables.size()) + " choices, got " +
           std::to_string(choices.size());
  for (size_t i = 0; i < choices.size(); ++i)
    if (choices[i] >= variables[i].costs.size())
      return "variable " + std::to_string(i) + ": expected a choice below " +
             std::to_string(variables[i].costs.size()) + ", got " + std::to_string(choices[i]);
  if (getCost(choices) >= forbidden)
    return "a forbidden choice is taken";
  return std::nullopt;
}

namespace {

/// A cost for each combination of the choices of `scope` (the first variable
/// most significant).
struct Table {
  llvm::SmallVector<size_t> scope;
  std::vector<double> costs;
};

/// The best choice of an eliminated variable, given the choices of `scope`.
struct Elimination {
  size_t variable;
  llvm::SmallVector<size_t> scope;
  std::vector<uint32_t> best;
};

class Eliminator {
public:
  Eliminator(const AssignmentProblem &problem, int64_t maxTable)
      : problem(problem), maxTable(maxTable), alive(problem.variables.size(), true) {
    for (size_t i = 0; i < problem.variables.size(); ++i)
      tables.push_back({{i}, problem.variables[i].costs});
    for (const AssignmentProblem::Factor &factor : problem.factors)
      tables.push_back({{factor.first, factor.second}, factor.costs});
  }

  std::optional<Assignment> run() {
    for (size_t step = 0; step < problem.variables.size(); ++step)
      if (!eliminateNext())
        return std::nullopt;
    Assignment result;
    result.choices.assign(problem.variables.size(), 0);
    for (const Elimination &elimination : llvm::reverse(eliminations))
      result.choices[elimination.variable] =
          elimination.best[getIndex(elimination.scope, result.choices)];
    result.cost = problem.getCost(result.choices);
    result.optimal = true;
    return result;
  }

private:
  size_t getDomain(size_t variable) const { return problem.variables[variable].costs.size(); }

  size_t getIndex(llvm::ArrayRef<size_t> scope, llvm::ArrayRef<size_t> choices) const {
    size_t index = 0;
    for (size_t variable : scope)
      index = index * getDomain(variable) + choices[variable];
    return index;
  }

  /// The other variables of tables that mention `variable`.
  llvm::SmallVector<size_t> getNeighbours(size_t variable) const {
    llvm::SmallVector<size_t> neighbours;
    for (const Table &table : tables)
      if (llvm::is_contained(table.scope, variable))
        for (size_t other : table.scope)
          if (other != variable && !llvm::is_contained(neighbours, other))
            neighbours.push_back(other);
    llvm::sort(neighbours);
    return neighbours;
  }

  double getTableSize(llvm::ArrayRef<size_t> scope) const {
    double size = 1;
    for (size_t variable : scope)
      size *= getDomain(variable);
    return size;
  }

  bool eliminateNext() {
    size_t best = alive.size();
    double bestSize = std::numeric_limits<double>::infinity();
    for (size_t variable = 0; variable < alive.size(); ++variable) {
      if (!alive[variable])
        continue;
      double size = getTableSize(getNeighbours(variable)) * getDomain(variable);
      if (size < bestSize) {
        best = variable;
        bestSize = size;
      }
    }
    if (bestSize > maxTable)
      return false;
    eliminate(best);
    return true;
  }

  void eliminate(size_t variable) {
    alive[variable] = false;
    std::vector<Table> mine, others;
    for (Table &table : tables)
      (llvm::is_contained(table.scope, variable) ? mine : others).push_back(std::move(table));
    tables = std::move(others);
    // `mine` was moved out of `tables`, so its neighbours are read from it.
    Table joined;
    for (const Table &table : mine)
      for (size_t other : table.scope)
        if (other != variable && !llvm::is_contained(joined.scope, other))
          joined.scope.push_back(other);
    llvm::sort(joined.scope);
    size_t size = getTableSize(joined.scope);
    joined.costs.assign(size, std::numeric_limits<double>::infinity());
    Elimination elimination{variable, joined.scope, std::vector<uint32_t>(size, 0)};
    llvm::SmallVector<size_t> choices(alive.size(), 0);
    for (size_t index = 0; index < size; ++index) {
      size_t rest = index;
      for (size_t other : llvm::reverse(joined.scope)) {
        choices[other] = rest % getDomain(other);
        rest /= getDomain(other);
      }
      for (size_t choice = 0; choice < getDomain(variable); ++choice) {
        choices[variable] = choice;
        double cost = 0;
        for (const Table &table : mine)
          cost += table.costs[getIndex(table.scope, choices)];
        if (cost < joined.costs[index]) {
          joined.costs[index] = cost;
          elimination.best[index] = choice;
        }
      }
    }
    eliminations.push_back(std::move(elimination));
    tables.push_back(std::move(joined));
  }

  const AssignmentProblem &problem;
  int64_t maxTable;
  std::vector<bool> alive;
  std::vector<Table> tables;
  std::vector<Elimination> eliminations;
};

} // namespace

std::optional<Assignment> mirage::block::solveByElimination(const AssignmentProblem &problem,
                                                            int64_t maxTable) {
  return Eliminator(problem, maxTable).run();
}

/// Improves one variable at a time, but never `held`.
static Assignment descend(const AssignmentProblem &problem, llvm::SmallVector<size_t> choices,
                          size_t held) {
  Assignment current{std::move(choices), 0, false};
  current.cost = problem.getCost(current.choices);
  for (bool improved = true; improved;) {
    improved = false;
    for (size_t variable = 0; variable < problem.variables.size(); ++variable) {
      if (variable == held)
        continue;
      for (size_t choice = 0; choice < problem.variables[variable].costs.size(); ++choice) {
        llvm::SmallVector<size_t> changed = current.choices;
        changed[variable] = choice;
        double cost = problem.getCost(changed);
        if (cost < current.cost) {
          current.choices = std::move(changed);
          current.cost = cost;
          improved = true;
        }
      }
    }
  }
  return current;
}

Assignment mirage::block::solveByDescent(const AssignmentProblem &problem) {
  llvm::SmallVector<size_t> cheapest;
  for (const AssignmentProblem::Variable &variable : problem.variables)
    cheapest.push_back(llvm::min_element(variable.costs) - variable.costs.begin());
  Assignment best = descend(problem, cheapest, problem.variables.size());
  for (size_t variable = 0; variable < problem.variables.size(); ++variable)
    for (size_t choice = 0; choice < problem.variables[variable].costs.size(); ++choice) {
      llvm::SmallVector<size_t> start = best.choices;
      start[variable] = choice;
      Assignment found = descend(problem, start, variable);
      found = descend(problem, found.choices, problem.variables.size());
      if (found.cost < best.cost)
        best = std::move(found);
    }
  return best;
}
