//===- ClusterTotals.cpp - totals over the blocks of a cluster ------------===//
//
// Blocks write what they have to each other once for all totals in a row, and
// each adds up what it has received in the order of the blocks, so that all of
// them have the same total.
//
//===----------------------------------------------------------------------===//

#include "TileEmitter.h"

#include "mirage/Dialect/Block/Analysis/Clusters.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mirage;
using block::getTile;
using thread::FragmentType;

/// Announces that the block has started: others write to its shared memory.
void TileEmitter::announceStart() {
  if (!launch.getBody().getOps<block::ClusterReduceOp>().empty())
    thread::ClusterArriveOp::create(builder, loc);
}

/// The totals of one element type from `first` on that need no result of each other.
static SmallVector<block::ClusterReduceOp> findTogether(block::ClusterReduceOp first) {
  SmallVector<block::ClusterReduceOp> found;
  auto isKnown = [&](Value value) { return value.getDefiningOp()->isBeforeInBlock(first); };
  for (Operation *op = first; op; op = op->getNextNode()) {
    auto total = dyn_cast<block::ClusterReduceOp>(op);
    if (!total || !llvm::all_of(total->getOperands(), isKnown) ||
        total.getType().getElementType() != first.getType().getElementType())
      break;
    found.push_back(total);
  }
  return found;
}

/// `combine` of neighbours, of what results, and so on.
static Value combineAll(ArrayRef<Value> values, function_ref<Value(Value, Value)> combine) {
  SmallVector<Value> all(values);
  while (all.size() > 1) {
    SmallVector<Value> next;
    for (size_t i = 0; i < all.size(); i += 2)
      next.push_back(combine(all[i], all[i + 1]));
    all = std::move(next);
  }
  return all.front();
}

void TileEmitter::emitClusterReduce(block::ClusterReduceOp op) {
  if (fragments.contains(op.getResult()))
    return; // with an earlier one
  SmallVector<block::ClusterReduceOp> totals = findTogether(op);
  llvm::SmallSetVector<Value, 4> inputs;
  for (block::ClusterReduceOp total : totals)
    for (Value operand : total->getOperands())
      inputs.insert(get(operand));
  if (!startIsKnown)
    thread::ClusterWaitOp::create(builder, loc);
  startIsKnown = true;
  int64_t blocks = *launch.getGridExtent(op.getAxis());
  auto gather = thread::ClusterGatherOp::create(builder, loc, inputs.getArrayRef(), blocks);
  DenseMap<Value, SmallVector<Value>> received;
  for (auto [number, input] : llvm::enumerate(inputs))
    received[input] = llvm::to_vector_of<Value>(gather.getResults().slice(number * blocks, blocks));
  for (block::ClusterReduceOp total : totals) {
    SmallVector<Value> values = received[get(total.getInput())];
    if (Value maximum = total.getRescale())
      rescaleAll(values, received[get(maximum)]);
    BinaryFn fn = total.getFn() == ReduceFn::Max ? BinaryFn::Max : BinaryFn::Add;
    fragments[total.getResult()] =
        combineAll(values, [&](Value a, Value b) { return binary(fn, a, b); });
  }
}

/// Multiplies each value by the exponential of its own maximum minus that of all.
void TileEmitter::rescaleAll(MutableArrayRef<Value> values, ArrayRef<Value> maxima) {
  Value most = combineAll(maxima, [&](Value a, Value b) { return binary(BinaryFn::Max, a, b); });
  for (auto [value, maximum] : llvm::zip_equal(values, maxima)) {
    auto type = cast<FragmentType>(value.getType());
    value = binary(BinaryFn::Mul, value, broadcastTo(emitFactor(maximum, most), type));
  }
}
