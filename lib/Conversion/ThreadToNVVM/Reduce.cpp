//===- Reduce.cpp - reductions in registers, warps and blocks -------------===//

#include "IntegerRange.h"
#include "Patterns.h"
#include "SharedAccess.h"
#include "Totals.h"

#include "mirage/Dialect/Thread/IR/LayoutConversion.h"

using namespace mlir;
using namespace mirage;
using namespace mirage::thread;

namespace {
/// A balanced tree: short dependence chains.
Value combineAll(Emitter &e, ReduceFn fn, SmallVector<Value> values) {
  while (values.size() > 1) {
    SmallVector<Value> next;
    for (size_t i = 0; i + 1 < values.size(); i += 2)
      next.push_back(combine(e, fn, values[i], values[i + 1]));
    if (values.size() % 2)
      next.push_back(values.back());
    values = std::move(next);
  }
  return values.front();
}

struct ReduceLowering : ThreadPattern<ReduceOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult lower(ReduceOp op, Adaptor operands, Emitter &e, Results &results) const override {
    FragmentType from = op.getOperand().getType(), to = op.getType();
    const LinearLayout &source = from.getLinearLayout(), &target = to.getLinearLayout();
    int64_t dim = op.getDim();
    if (int64_t bytes = op.getScratchBytes(); bytes && !op.getScratch())
      return missingScratch(op, bytes);

    // Numbers of 32 bits are compared in as many.
    SmallVector<Value> scalars = llvm::to_vector(operands.getOperand());
    bool isNarrow =
        from.getElementType().isInteger(64) && op.getFn() != ReduceFn::Sum && fitInWords(scalars);
    if (isNarrow)
      for (Value &scalar : scalars)
        scalar = e.createOrFold<arith::TruncIOp>(e.getI32Type(), scalar);
    SmallVector<SmallVector<Value>> parts(target.getNumRegisters());
    for (auto [i, scalar] : llvm::enumerate(scalars)) {
      Coord at = source.getRegister(i);
      (dim == 0 ? at.row : at.col) = 0;
      parts[*target.findRegister(at)].push_back(scalar);
    }
    SmallVector<Value> values;
    for (SmallVector<Value> &part : parts)
      values.push_back(combineAll(e, op.getFn(), part));
    for (auto [bit, vector] : llvm::enumerate(source.getLane()))
      if (vector[dim])
        for (Value &value : values)
          value = combine(e, op.getFn(), value, e.shuffleXor(value, int64_t(1) << bit));
    if (op.getScratchBytes())
      exchange(op, e, values);
    if (isNarrow)
      for (Value &value : values)
        value = arith::ExtSIOp::create(e, e.getI64Type(), value);
    results.push_back(values);
    return success();
  }

  /// Every warp along `dim` writes its part, all read all parts.
  static void exchange(ReduceOp op, Emitter &e, SmallVector<Value> &values) {
    const LinearLayout &source = op.getOperand().getType().getLinearLayout(),
                       &target = op.getType().getLinearLayout();
    SmallVector<int64_t> partBits;
    int64_t partCount = 1;
    // Copies in further warps, or in other lanes, need not be written.
    LinearLayout::Basis warpOwners(target.getWarp());
    for (auto [vector, owner] : llvm::zip(source.getWarp(), warpOwners)) {
      bool spans = vector[op.getDim()] != 0;
      partBits.push_back(spans ? partCount : 0);
      partCount *= spans ? 2 : 1;
      if (spans)
        owner = Coord{1, 1}; // not a copy
    }
    LinearLayout writers({}, LinearLayout::Basis(target.getLane()), warpOwners);
    int64_t rows = op.getType().getRows(), cols = op.getType().getCols();
    Type type = values.front().getType();
    int64_t bytes = type.getIntOrFloatBitWidth() / 8, partBytes = rows * cols * bytes;
    Value element = e.add(e.mul(e.threadOffset(target, 0), cols * bytes),
                          e.mul(e.threadOffset(target, 1), bytes));
    Value base = e.offset(e.shared(*op.getScratch()), element);
    auto place = [&](Value start, int64_t reg) {
      Coord at = target.getRegister(reg);
      return e.offset(start, (at.row * cols + at.col) * bytes);
    };
    e.barrier();
    Value part = e.mul(e.linear(e.warp(), partBits), partBytes);
    e.ifThen(e.isLeader(writers), [&] {
      Value start = e.offset(base, part);
      for (auto [i, value] : llvm::enumerate(values))
        LLVM::StoreOp::create(e, value, place(start, i), bytes);
    });
    e.barrier();
    for (auto [i, value] : llvm::enumerate(values)) {
      SmallVector<Value> loaded;
      for (int64_t p = 0; p < partCount; ++p)
        loaded.push_back(
            LLVM::LoadOp::create(e, type, e.offset(place(base, i), p * partBytes), bytes));
      value = combineAll(e, op.getFn(), loaded);
    }
  }
};

struct ReduceWarpsLowering : ThreadPattern<ReduceWarpsOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult lower(ReduceWarpsOp op, Adaptor operands, Emitter &e,
                      Results &results) const override {
    if (!op.getScratch())
      return missingScratch(op, op.getScratchBytes());
    FragmentType from = op.getOperand().getType(), to = op.getType();
    const LinearLayout &source = from.getLinearLayout();
    SmallVector<int64_t> partBits;
    int64_t partCount = 1;
    for (Coord vector : source.getWarp()) {
      partBits.push_back(vector.isZero() ? partCount : 0);
      partCount *= vector.isZero() ? 2 : 1;
    }
    SharedType tile = getExchangeType(from);
    Value base = e.shared(*op.getScratch());
    Value part = e.mul(e.linear(e.warp(), partBits), tile.getTotalBytes());
    e.barrier();
    SharedAccess(tile, source).storeParts(e, e.offset(base, part), operands.getOperand());
    e.barrier();
    SharedAccess read(tile, to.getLinearLayout());
    // Part by part, so that few values are live.
    SmallVector<Value> sums = read.load(e, base);
    for (int64_t p = 1; p < partCount; ++p)
      for (auto [sum, value] :
           llvm::zip(sums, read.load(e, e.offset(base, p * tile.getTotalBytes()))))
        sum = combine(e, ReduceFn::Sum, sum, value);
    results.push_back(sums);
    return success();
  }
};
} // namespace

void mirage::thread::populateReducePatterns(const TypeConverter &converter,
                                            RewritePatternSet &patterns) {
  patterns.add<ReduceLowering, ReduceWarpsLowering>(converter, patterns.getContext());
}
