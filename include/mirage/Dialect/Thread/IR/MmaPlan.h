//===- MmaPlan.h - a matrix product as tensor-core instructions -*- C++ -*-===//

#ifndef MIRAGE_DIALECT_THREAD_IR_MMAPLAN_H
#define MIRAGE_DIALECT_THREAD_IR_MMAPLAN_H

#include "mirage/Dialect/Thread/IR/Thread.h"

namespace mirage::thread {

/// The instructions that each warp executes for a `thread.mma`, in order. The
/// registers of an operand of an instruction are consecutive in the fragment,
/// so their number in units of the operand's size names them.
struct MmaPlan {
  struct Step {
    int64_t lhs, rhs, acc;
  };
  /// Registers of one instruction's operands.
  int64_t lhsRegisters, rhsRegisters, accRegisters = 4;
  llvm::SmallVector<Step> steps;
};

/// Matches the layouts of the three fragments. On failure `message` states what was expected and
/// what was given.
mlir::FailureOr<MmaPlan> planMma(FragmentType lhs, FragmentType rhs, FragmentType acc,
                                 std::string &message);

} // namespace mirage::thread

#endif // MIRAGE_DIALECT_THREAD_IR_MMAPLAN_H
