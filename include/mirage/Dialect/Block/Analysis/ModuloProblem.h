//===- ModuloProblem.h - a modulo schedule of a loop's body -----*- C++ -*-===//
//
// Ops that a group of warps executes at each step of a loop, one after the other, and products,
// which tensor cores execute beside the warps. An op of stage s is executed s steps late: while the
// warps go through a round, ops of stage 0 work for step j and those of stage 1 for step j - 1. In
// a round the ops come in one order; the warps wait for a product at the first op that reads it.
//
// A schedule is the stages and the order. Its period is the time of a round once all stages have
// work, and not less than what all groups together need of the tensor cores, and of the warps'
// units. The problem, the check of a schedule and the solver are separate.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_BLOCK_ANALYSIS_MODULOPROBLEM_H
#define MIRAGE_DIALECT_BLOCK_ANALYSIS_MODULOPROBLEM_H

#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <optional>
#include <string>

namespace mirage::block {

/// Stages and order of a body's ops.
struct ModuloSchedule {
  /// Of each op.
  llvm::SmallVector<int64_t> stages;
  /// The ops in the order in which a round executes them.
  llvm::SmallVector<size_t> order;
  /// Clocks of a round of one group that has the units to itself.
  int64_t chain = 0;
  /// Clocks of a round: `chain`, or what the groups together need of a unit.
  int64_t period = 0;
  /// Registers of a thread where most are alive.
  int64_t registers = 0;
  /// No schedule is better.
  bool optimal = false;
};

/// Why something is not a schedule, and which op is to blame.
struct ModuloError {
  size_t op;
  std::string message;
};

struct ModuloProblem {
  struct Op {
    /// Executed by tensor cores, while the warps go on.
    bool isProduct = false;
    /// For which the op occupies its unit; at least 0.
    int64_t clocks = 0;
    /// Of a thread for the result.
    int64_t registers = 0;
    /// The last stage that can be lowered.
    int64_t lastStage = 0;
    /// The result may take the registers of operands that nothing reads later.
    bool inPlace = true;
    /// At stage 0 the warps wait for this product at the end of the round.
    bool isWaited = false;
  };
  /// Op `to` of step j + distance reads the result of op `from` of step j, or writes registers that
  /// product `from` reads. Sums that products add to each other are no edges.
  struct Edge {
    size_t from, to;
    int64_t distance = 0;
  };
  llvm::SmallVector<Op> ops;
  llvm::SmallVector<Edge> edges;
  /// Groups of warps that share the units.
  int64_t groups = 1;
  /// Of a thread, for results of the ops.
  int64_t registers = 0;

  /// Nothing, or the error in the instance.
  std::optional<std::string> check() const;

  /// Nothing, or why stages and order are no schedule: ops that are missing, stages that cannot be
  /// lowered, values that are read before they are there, too many registers.
  std::optional<ModuloError> verify(const ModuloSchedule &schedule) const;

  /// Clocks of a round of one group. Precondition: stages and order pass `verify`, registers aside.
  int64_t getChain(const ModuloSchedule &schedule) const;
  /// What all groups together need of the busier unit.
  int64_t getLeastPeriod() const;
  /// Registers of a thread where most are alive. Precondition as above.
  int64_t getRegisters(const ModuloSchedule &schedule) const;
};

/// The least period; among those the least chain, then the fewest late ops; then the order in which
/// products start as soon as they can, late ones after the others, and ops come by number. Branch
/// and bound; at most `maxNodes` places are tried, a like number for each choice of stages, whose
/// first order is always tried. Deterministic. Nothing if no schedule that was found fits the
/// registers.
std::optional<ModuloSchedule> solveModulo(const ModuloProblem &problem, int64_t maxNodes = 20000);

} // namespace mirage::block

#endif // MIRAGE_DIALECT_BLOCK_ANALYSIS_MODULOPROBLEM_H
