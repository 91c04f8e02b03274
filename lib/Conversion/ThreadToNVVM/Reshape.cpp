//===- Reshape.cpp - changes of shape and layout --------------------------===//

#include "Patterns.h"
#include "SharedAccess.h"

#include "mirage/Dialect/Thread/IR/LayoutConversion.h"

using namespace mlir;
using namespace mirage::thread;

namespace {
struct BroadcastLowering : ThreadPattern<BroadcastOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(BroadcastOp op, Adaptor operands, Emitter &e,
                      Results &results) const override {
    FragmentType from = op.getOperand().getType(), to = op.getType();
    const LinearLayout &source = from.getLinearLayout(), &target = to.getLinearLayout();
    SmallVector<Value> scalars = unpack(e, from, operands.getOperand()), spread;
    for (int64_t i = 0; i < to.getNumRegisters(); ++i) {
      Coord at = target.getRegister(i);
      (op.getDim() == 0 ? at.row : at.col) = 0;
      spread.push_back(scalars[*source.findRegister(at)]);
    }
    results.push_back(pack(e, to, spread));
    return success();
  }
};

struct TransposeLowering : ThreadPattern<TransposeOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(TransposeOp op, Adaptor operands, Emitter &e,
                      Results &results) const override {
    FragmentType from = op.getOperand().getType(), to = op.getType();
    SmallVector<Value> scalars = unpack(e, from, operands.getOperand());
    SmallVector<Value> moved(scalars.size());
    for (auto [i, scalar] : llvm::enumerate(scalars))
      moved[from.getLinearLayout().transposeRegister(i)] = scalar;
    results.push_back(pack(e, to, moved));
    return success();
  }
};

struct SliceLowering : ThreadPattern<SliceOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(SliceOp op, Adaptor operands, Emitter &e, Results &results) const override {
    FragmentType from = op.getOperand().getType(), to = op.getType();
    Coord origin{int32_t(op.getOffsets()[0]), int32_t(op.getOffsets()[1])};
    SmallVector<Value> scalars = unpack(e, from, operands.getOperand()), part;
    for (int64_t i = 0; i < to.getNumRegisters(); ++i)
      part.push_back(scalars[*from.getLinearLayout().findRegister(
          to.getLinearLayout().getRegister(i) + origin)]);
    results.push_back(pack(e, to, part));
    return success();
  }
};

struct ConvertLayoutLowering : ThreadPattern<ConvertLayoutOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult lower(ConvertLayoutOp op, Adaptor operands, Emitter &e,
                      Results &results) const override {
    FragmentType from = op.getOperand().getType(), to = op.getType();
    SmallVector<Value> scalars = unpack(e, from, operands.getOperand());
    if (std::optional<WarpConversion> plan =
            planWarpConversion(from.getLinearLayout(), to.getLinearLayout())) {
      results.push_back(pack(e, to, convertInWarp(e, *plan, from, scalars)));
      return success();
    }
    if (!op.getScratch())
      return op.emitOpError("expected 'scratch', the byte offset of ")
             << op.getScratchBytes()
             << " bytes of shared memory; run mirage-plan-shared-memory first";
    SharedType tile = getExchangeType(from);
    Value base = e.shared(*op.getScratch());
    SharedAccess write(tile, from.getLinearLayout()), read(tile, to.getLinearLayout());
    e.barrier();
    write.store(e, base, scalars);
    e.barrier();
    results.push_back(pack(e, to, read.load(e, base)));
    return success();
  }

  /// Combines what the set bits of lane and warp contribute.
  template <typename Get>
  static Value contribution(Emitter &e, const WarpConversion &plan, Get get) {
    SmallVector<int64_t> laneVectors, warpVectors;
    for (WarpConversion::Bit bit : plan.laneBits)
      laneVectors.push_back(get(bit));
    for (WarpConversion::Bit bit : plan.warpBits)
      warpVectors.push_back(get(bit));
    // The contributions are distinct bits, so that sums are XORs.
    Value sum = e.linear(e.lane(), laneVectors);
    if (llvm::any_of(warpVectors, [](int64_t vector) { return vector != 0; }))
      sum = e.add(sum, e.linear(e.warp(), warpVectors));
    return sum;
  }

  static SmallVector<Value> convertInWarp(Emitter &e, const WarpConversion &plan, FragmentType from,
                                          ArrayRef<Value> scalars) {
    SmallVector<int64_t> selections = plan.getSelections();
    Value selected = contribution(e, plan, [](WarpConversion::Bit bit) { return bit.source; });
    Value moved = contribution(e, plan, [](WarpConversion::Bit bit) { return bit.lane; });
    SmallVector<Value> result;
    for (WarpConversion::Register reg : plan.registers) {
      Value value;
      for (int64_t selection : selections) {
        Value candidate = scalars[reg.source ^ selection];
        if (plan.shuffles)
          candidate = e.shuffleIndex(candidate, e.bitXor(moved, e.i32(reg.lane)));
        Value isIt = e.compare(arith::CmpIPredicate::eq, selected, e.i32(selection));
        value = value ? e.select(isIt, candidate, value) : candidate;
      }
      result.push_back(value);
    }
    return result;
  }
};
} // namespace

void mirage::thread::populateReshapePatterns(const TypeConverter &converter,
                                             RewritePatternSet &patterns) {
  patterns.add<BroadcastLowering, TransposeLowering, SliceLowering, ConvertLayoutLowering>(
      converter, patterns.getContext());
}
