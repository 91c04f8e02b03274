//===- OrderForRegisters.cpp - an order that needs fewer registers --------===//

#include "mirage/Dialect/Block/Analysis/HeldTile.h"
#include "mirage/Dialect/Block/Analysis/RegisterEstimate.h"

#include <limits>

using namespace mlir;
using namespace mirage;
using namespace mirage::block;

namespace {
/// List scheduling of one block.
class Scheduler {
public:
  explicit Scheduler(Block &block) : block(block) {
    for (Operation &op : block.without_terminator()) {
      waiting.push_back(&op);
      forEachOperand(&op, [&](Value value) { usersLeft[value].insert(&op); });
    }
    // The operands of the terminator stay alive.
    forEachOperand(block.getTerminator(),
                   [&](Value value) { usersLeft[value].insert(block.getTerminator()); });
  }

  void run() {
    while (!waiting.empty()) {
      auto next = waiting.end();
      int64_t least = std::numeric_limits<int64_t>::max();
      for (auto it = waiting.begin(); it != waiting.end(); ++it) {
        if (!isReady(*it) || getGrowth(*it) >= least)
          continue;
        next = it;
        least = getGrowth(*it);
      }
      Operation *op = *next;
      waiting.erase(next);
      op->moveBefore(block.getTerminator());
      placed.insert(op);
      forEachOperand(op, [&](Value value) { usersLeft[value].erase(op); });
    }
  }

private:
  /// Values of this block that the op, or an op inside of it, reads.
  void forEachOperand(Operation *op, llvm::function_ref<void(Value)> fn) {
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (operand.getDefiningOp() && operand.getParentBlock() == &block)
          fn(operand);
    });
  }

  bool isReady(Operation *op) {
    bool ready = true;
    forEachOperand(op, [&](Value value) { ready &= placed.contains(value.getDefiningOp()); });
    return ready;
  }

  /// The change in the number of live registers at the op.
  int64_t getGrowth(Operation *op) {
    if (auto load = dyn_cast<LoadOp>(op); load && getShared(load.getResult()))
      return std::numeric_limits<int64_t>::min();
    int64_t growth = 0;
    for (Value result : op->getResults())
      growth += getTileRegisters(result);
    DenseSet<Value> counted;
    forEachOperand(op, [&](Value value) {
      if (usersLeft[value].size() == 1 && counted.insert(value).second)
        growth -= getTileRegisters(value);
    });
    return growth;
  }

  Block &block;
  std::vector<Operation *> waiting;
  DenseSet<Operation *> placed;
  DenseMap<Value, DenseSet<Operation *>> usersLeft;
};
} // namespace

void mirage::block::orderForRegisters(kernel::LaunchOp launch) {
  SmallVector<Block *> blocks = {&launch.getBody().front()};
  launch.getBody().walk([&](LoopOp loop) { blocks.push_back(&loop.getBody().front()); });
  for (Block *block : blocks)
    Scheduler(*block).run();
}
