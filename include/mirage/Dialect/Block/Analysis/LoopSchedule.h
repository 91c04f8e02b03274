//===- LoopSchedule.h - stages and order of a loop's ops --------*- C++ -*-===//
//
// The body of a loop whose products warpgroups compute, as a problem of modulo scheduling
// (ModuloProblem.h), and the attributes by which a schedule is written on its ops.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_BLOCK_ANALYSIS_LOOPSCHEDULE_H
#define MIRAGE_DIALECT_BLOCK_ANALYSIS_LOOPSCHEDULE_H

#include "mirage/Dialect/Block/Analysis/ModuloProblem.h"
#include "mirage/Dialect/Block/IR/Block.h"

#include <optional>

namespace mirage::block {

/// How many steps late an op is executed: 0, or 1 for products of the previous step.
constexpr llvm::StringLiteral kStage = "block.stage";
/// The op's place among the ops of a step.
constexpr llvm::StringLiteral kOrder = "block.order";

/// Whether a product is computed during the next step.
bool isDeferred(MatmulOp matmul);

/// Whether the ops of the loop have stages and places.
bool isScheduled(LoopOp loop);

/// The ops of a body that are scheduled, and the problem of scheduling them.
struct LoopBody {
  /// Of each op of the problem: products that are started together, or one other op.
  llvm::SmallVector<llvm::SmallVector<mlir::Operation *>> ops;
  ModuloProblem problem;

  /// `groups` groups of warps execute the loop. Each of their threads has `registers` for results
  /// of the body. Precondition: layouts are assigned, and loads are rings.
  LoopBody(LoopOp loop, int64_t groups, int64_t registers);

  /// Whether every op of the body can be placed freely: none has a body of its own.
  bool isSchedulable = true;
  /// Registers of a thread where most of the results are alive if the ops are executed one after
  /// the other, each product waited for at once.
  int64_t getPlainRegisters() const;

  /// Sets the attributes of all ops.
  void write(const ModuloSchedule &schedule) const;
  /// Their schedule; or failure, with a diagnostic at the op that is to blame.
  mlir::FailureOr<ModuloSchedule> read() const;
};

/// Checks the attributes of a scheduled loop, and brings its ops into their order, those of stage 1
/// last. An error is reported at the op that is to blame; too many registers are one only if
/// `registers` are given.
llvm::LogicalResult applySchedule(LoopOp loop, int64_t groups,
                                  std::optional<int64_t> registers = std::nullopt);

} // namespace mirage::block

#endif // MIRAGE_DIALECT_BLOCK_ANALYSIS_LOOPSCHEDULE_H
