//===- AssignmentProblem.h - choices with pairwise costs --------*- C++ -*-===//
//
// Variables with finite domains, a cost for each choice, and costs for pairs of
// choices: minimise the sum. (A factor graph with unary and pairwise factors;
// layout assignment is such a problem.) The problem and the cost of a solution are separate from
// the solvers.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_BLOCK_ANALYSIS_ASSIGNMENTPROBLEM_H
#define MIRAGE_DIALECT_BLOCK_ANALYSIS_ASSIGNMENTPROBLEM_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace mirage::block {

/// Cost of a forbidden choice; no sum of two costs overflows.
inline constexpr double forbidden = 1e30;

struct AssignmentProblem {
  /// Cost of each choice of a variable.
  struct Variable {
    std::vector<double> costs;
  };
  /// Cost of each pair of choices of two different variables: the choice of
  /// `first` is the more significant index.
  struct Factor {
    size_t first, second;
    std::vector<double> costs;
  };
  std::vector<Variable> variables;
  std::vector<Factor> factors;

  /// Nothing, or the error in the instance.
  std::optional<std::string> check() const;

  /// Cost of a complete assignment. Precondition: one choice in range for each
  /// variable.
  double getCost(llvm::ArrayRef<size_t> choices) const;

  /// Nothing, or the reason why the assignment is not a solution.
  std::optional<std::string> verify(llvm::ArrayRef<size_t> choices) const;
};

struct Assignment {
  llvm::SmallVector<size_t> choices;
  double cost = std::numeric_limits<double>::infinity();
  /// No assignment has a smaller cost.
  bool optimal = false;
};

/// Bucket elimination: variables with the smallest tables first; exact. Nothing
/// if a table would have more than `maxTable` entries.
std::optional<Assignment> solveByElimination(const AssignmentProblem &problem, int64_t maxTable);

/// Starts from each variable's cheapest choice and improves one variable at a
/// time until none can be improved; from the start and from each choice of each
/// variable held first. Deterministic.
Assignment solveByDescent(const AssignmentProblem &problem);

} // namespace mirage::block

#endif // MIRAGE_DIALECT_BLOCK_ANALYSIS_ASSIGNMENTPROBLEM_H
