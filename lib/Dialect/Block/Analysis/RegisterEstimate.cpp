//===- RegisterEstimate.cpp - registers that a launch needs ---------------===//

#include "mirage/Dialect/Block/Analysis/RegisterEstimate.h"

#include "mirage/Dialect/Block/Analysis/HeldTile.h"
#include "mirage/Dialect/Block/Analysis/ProductPhases.h"
#include "mirage/Dialect/Thread/IR/Layouts.h"
#include "mirage/Target/WarpSharing.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mirage;
using namespace mirage::block;

int64_t mirage::block::getTileRegisters(Value value) {
  if (isScalar(value) || !isa<TileType>(value.getType()))
    return 0;
  // A broadcast tile is its operand's registers, repeated.
  if (auto broadcast = value.getDefiningOp<BroadcastOp>())
    return getTileRegisters(broadcast.getInput());
  thread::FragmentType type = getFragment(value);
  if (!type)
    return 0;
  int64_t bytes = type.getElementType().getIntOrFloatBitWidth() / 8;
  return llvm::divideCeil(type.getNumRegisters() * bytes, 4);
}

/// Of a part of a promoted product.
static constexpr int64_t promotedRegisters =
    thread::kGroupRows * promotedColumns / thread::kGroupThreads;

/// Operand registers that a matmul reads from shared memory ahead of its
/// instructions: one step along K. If warps share K and the other operand is in registers, each
/// warp reads all of its part of K, and the assembler moves the next product's reads there as well.
/// Warpgroups read no operands, but hold parts of products that are added to the sums.
static int64_t getOperandWords(MatmulOp op) {
  if (op.getWarpgroup())
    return isPromoted(op) ? std::min(getTileRegisters(op.getResult()), promotedRegisters) : 0;
  ArrayRef<int64_t> warps = *op.getWarps();
  thread::FragmentType result = getFragment(op.getResult());
  int64_t sides[2] = {result.getRows(), result.getCols()}, words = 0, inRegisters = 0;
  int64_t bits = getTile(op.getLhs()).getElementType().getIntOrFloatBitWidth();
  for (int64_t index : {0, 1}) {
    // 16 rows of an instruction's left operand take 4 registers, 8 columns of
    // the right one 2; f32 operands are split into two TF32 parts.
    int64_t units = std::max<int64_t>(sides[index] / warps[index] / 8, 1);
    if (getFragment(op->getOperand(index)))
      ++inRegisters;
    else
      words += 2 * units * (bits == 16 ? 1 : 2);
  }
  int64_t depth = getTile(op.getLhs()).getShape()[1] / warps[2];
  int64_t steps = llvm::divideCeil(depth, thread::mmaInstructionK(bits / 8));
  return warps[2] > 1 && inRegisters ? 2 * steps * words : words;
}

namespace {
class Estimate {
public:
  /// The most registers alive at any point of `body`; `around` of them are for values from outside.
  int64_t visit(Block &body, int64_t around) {
    int64_t alive = around, most = around;
    for (Operation &op : body) {
      int64_t dying = 0;
      for (Value operand : llvm::SetVector<Value>(op.operand_begin(), op.operand_end()))
        if (isLastUse(operand, &op))
          dying += getTileRegisters(operand);
      int64_t results = 0;
      if (auto loop = dyn_cast<LoopOp>(op)) {
        dying = getDyingIn(loop);
        for (Value result : op.getResults())
          results += getTileRegisters(result);
        int64_t carried = results;
        for (auto running : loop.getBody().getOps<RunningMaxOp>())
          carried += getTileRegisters(running.getResult());
        most = std::max(most, visit(loop.getBody().front(), alive + carried));
      } else if (op.getNumResults() == 1 && !isa<ConstantOp>(op)) {
        results = isAccumulated(op.getResult(0)) ? 0 : getTileRegisters(op.getResult(0));
        int64_t during = alive + results;
        if (auto matmul = dyn_cast<MatmulOp>(op))
          during += getOperandWords(matmul);
        else
          // Element by element, or through shared memory.
          during -= std::min(dying, results);
        most = std::max(most, during);
        if (isa<BroadcastOp>(op))
          results = dying ? results : 0;
      }
      alive += results - dying;
    }
    return most;
  }

private:
  /// Whether the value belongs to this block and nothing after `op` reads it.
  static bool isLastUse(Value value, Operation *op) {
    Block *block = op->getBlock();
    if (!isa<TileType>(value.getType()) || value.getParentBlock() != block || isAccumulated(value))
      return false;
    return llvm::all_of(value.getUsers(), [&](Operation *user) {
      Operation *ancestor = block->findAncestorOpInBlock(*user);
      return ancestor == op || ancestor->isBeforeInBlock(op);
    });
  }

  /// Registers of values from outside of a loop that only it reads.
  static int64_t getDyingIn(LoopOp loop) {
    llvm::SetVector<Value> outside;
    loop.walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (operand.getParentBlock() == loop->getBlock())
          outside.insert(operand);
    });
    int64_t words = 0;
    for (Value value : outside)
      words += isLastUse(value, loop) ? getTileRegisters(value) : 0;
    return words;
  }

  /// A product that is added to an accumulator of the loop in place.
  static bool isAccumulated(Value value) {
    auto matmul = value.getDefiningOp<MatmulOp>();
    return matmul && value.hasOneUse() && isa<AccumulateOp>(*value.getUsers().begin());
  }
};
} // namespace

int64_t mirage::block::estimateTileRegisters(kernel::LaunchOp launch) {
  return Estimate().visit(launch.getBody().front(), 0);
}

/// Registers of a thread other than those of tiles: addresses, counters.
static constexpr int64_t others = 13;

int64_t mirage::block::getTileRegisterBudget(const Chip &chip, int64_t numWarps) {
  return chip.getMostRegisters(numWarps) - others;
}

RegisterShares mirage::block::getRegisterShares(const Chip &chip, int64_t warps, bool written) {
  // Units of setmaxnreg and the fewest that it accepts; more than 240 were never useful. Only the
  // registers that the block starts with are divided, not all registers.
  constexpr int64_t unit = 8, most = 240;
  int64_t copying = written ? 40 : 24;
  int64_t groups = warps / 4, lanes = chip.getMostRegisters(warps + 4) * (groups + 1);
  return {copying, std::min(most, (lanes - copying) / groups / unit * unit)};
}

int64_t mirage::block::getTileRegisterBudget(const Chip &chip, kernel::ScheduleAttr schedule) {
  int64_t fixed = getTileRegisterBudget(chip, schedule.getBlockWarps());
  if (!schedule.usesWarpgroups() || !chip.has(Ability::WarpRegisters))
    return fixed;
  return std::max(fixed, getRegisterShares(chip, schedule.getWarps(), /*written=*/false).computing -
                             others);
}
