//===- PaddingAnalysis.cpp - extents of fragments -------------------------===//

#include "mirage/Dialect/Block/Transforms/PaddingAnalysis.h"

#include "mirage/Dialect/Block/Transforms/HeldTile.h"
#include "mirage/Dialect/Thread/IR/Layouts.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mirage;
using namespace mirage::block;

bool mirage::block::prefersSwapped(MatmulOp matmul) {
  ArrayRef<int64_t> shape = getTile(matmul.getResult()).getShape();
  return shape[0] <= 8 && shape[1] > 8;
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
  TypeSwitch<Operation *>(op)
      .Case<UnaryOp, BinaryOp, CastOp, BroadcastOp, MaskOp, RunningMaxOp, ConvertLayoutOp>(
          [&](Operation *same) {
            for (Value operand : same->getOperands())
              tieEqual(operand, same->getResult(0));
          })
      .Case<ReduceOp>([&](ReduceOp reduce) {
        for (unsigned dim : {0u, 1u})
          if (!llvm::is_contained(reduce.getDims(), dim))
            tie({reduce.getInput(), dim}, {reduce.getResult(), dim});
      })
      .Case<TransposeOp>([&](TransposeOp transpose) {
        tie({transpose.getInput(), 0}, {transpose.getResult(), 1});
        tie({transpose.getInput(), 1}, {transpose.getResult(), 0});
      })
      .Case<AccumulateOp>([&](AccumulateOp accumulate) {
        for (auto [index, value] : llvm::enumerate(accumulate.getValues())) {
          tieEqual(value, accumulate->getParentOp()->getResult(index));
          if (Value rescale = accumulate.getRescale(index))
            tieEqual(value, rescale);
        }
      })
      .Case<MatmulOp>([&](MatmulOp matmul) {
        Value lhs = matmul.getLhs(), rhs = matmul.getRhs(), result = matmul.getResult();
        tie({lhs, 0}, {result, 0});
        tie({rhs, 1}, {result, 1});
        tie({lhs, 1}, {rhs, 0});
        bool swapped = prefersSwapped(matmul);
        int64_t bytes = getTile(lhs).getElementType().getIntOrFloatBitWidth() / 8;
        require(result, 0, swapped ? 8 : 16);
        require(result, 1, swapped ? 16 : 8);
        require(lhs, 1, thread::mmaInstructionK(bytes));
      });
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
  // No instruction asks for anything. Up to a few elements a thread: the next
  // power of two, so that the threads can share them out; else a multiple of a
  // power of two that wastes at most a quarter.
  if (llvm::isPowerOf2_64(extent) || extent <= 32 * numWarps * 4)
    return llvm::PowerOf2Ceil(extent);
  return llvm::alignTo(extent, std::min<int64_t>(llvm::bit_floor<uint64_t>(extent) / 4, 4096));
}
