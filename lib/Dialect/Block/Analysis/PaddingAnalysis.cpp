//===- PaddingAnalysis.cpp - extents of fragments -------------------------===//

#include "mirage/Dialect/Block/Analysis/PaddingAnalysis.h"

#include "mirage/Dialect/Block/Analysis/HeldTile.h"
#include "mirage/Dialect/Thread/IR/Layouts.h"
#include "mirage/Target/Staging.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mirage;
using namespace mirage::block;

bool mirage::block::prefersSwapped(MatmulOp matmul) {
  ArrayRef<int64_t> shape = getTile(matmul.getResult()).getShape();
  return shape[0] <= narrowRows && shape[1] > narrowRows;
}

PaddingAnalysis::PaddingAnalysis(kernel::LaunchOp launch, int64_t numWarps) : numWarps(numWarps) {
  launch.getBody().walk([&](Operation *op) { visit(op); });
}

void PaddingAnalysis::tie(Key a, Key b) { classes.unionSets(a, b); }

void PaddingAnalysis::tieEqual(Value a, Value b) {
  if (isScalar(a) || isScalar(b))
    return;
  for (unsigned dim : {0u, 1u})
    if (getTile(a).getShape()[dim] == getTile(b).getShape()[dim])
      tie({a, dim}, {b, dim});
}

void PaddingAnalysis::require(Value value, unsigned dim, int64_t multiple) {
  Key leader = classes.getOrInsertLeaderValue({value, dim});
  (void)leader;
  int64_t &current = multiples[{value, dim}];
  current = std::max(current, multiple);
}

void PaddingAnalysis::visit(Operation *op) {
  if (auto tile = dyn_cast<TileOpInterface>(op))
    for (OpOperand &use : op->getOpOperands())
      tieDims(tile, use);
  if (auto accumulate = dyn_cast<AccumulateOp>(op))
    for (auto [index, value] : llvm::enumerate(accumulate.getValues())) {
      tieEqual(value, accumulate->getParentOp()->getResult(index));
      if (Value rescale = accumulate.getRescale(index))
        tieEqual(value, rescale);
    }
  if (auto argsort = dyn_cast<ArgsortOp>(op)) { // a network of pairs
    Value input = argsort.getInput();
    int64_t dim = argsort.getDim();
    require(input, dim, llvm::PowerOf2Ceil(getTile(input).getShape()[dim]));
  }
  if (auto matmul = dyn_cast<MatmulOp>(op)) {
    Value lhs = matmul.getLhs(), rhs = matmul.getRhs(), result = matmul.getResult();
    tie({lhs, 1}, {rhs, 0});
    bool swapped = prefersSwapped(matmul);
    int64_t bytes = getTile(lhs).getElementType().getIntOrFloatBitWidth() / 8;
    require(result, 0, swapped ? 8 : 16);
    require(result, 1, swapped ? 16 : 8);
    require(lhs, 1, thread::mmaInstructionK(bytes));
  }
}

void PaddingAnalysis::tieDims(TileOpInterface tile, OpOperand &use) {
  if (!isa<TileType>(use.get().getType()) || isScalar(use.get()))
    return;
  Value result = tile->getResult(0);
  for (unsigned dim : {0u, 1u}) {
    std::optional<unsigned> to = tile.getResultDim(use.getOperandNumber(), dim);
    if (to && getTile(use.get()).getShape()[dim] == getTile(result).getShape()[*to])
      tie({use.get(), dim}, {result, *to});
  }
}

int64_t PaddingAnalysis::getExtent(Value value, int64_t dim) const {
  Key key{value, unsigned(dim)};
  int64_t extent = getTile(value).getShape()[dim];
  int64_t multiple = 0;
  if (classes.contains(key)) {
    for (auto it = classes.findLeader(key); it != classes.member_end(); ++it)
      multiple = std::max(multiple, multiples.lookup(*it));
  }
  if (multiple > 0)
    return llvm::alignTo(extent, multiple);
  // No instruction requires anything. Up to a few elements per thread, the next power of two, so
  // that the elements can be distributed among threads; otherwise a multiple of a power of two that
  // wastes at most a quarter.
  if (llvm::isPowerOf2_64(extent) || extent <= 32 * numWarps * 4)
    return llvm::PowerOf2Ceil(extent);
  return llvm::alignTo(extent, std::min<int64_t>(llvm::bit_floor<uint64_t>(extent) / 4, 4096));
}
