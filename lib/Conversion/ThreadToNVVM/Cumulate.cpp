//===- Cumulate.cpp - sums so far in registers, warps and blocks ----------===//

#include "Patterns.h"
#include "Totals.h"

#include "mirage/Dialect/Thread/IR/Cumulation.h"

#include <map>

using namespace mlir;
using namespace mirage;
using namespace mirage::thread;

namespace {
/// Registers of a thread that still lack the same value, the total of everything before them; null
/// if there is nothing.
struct Run {
  SmallVector<int64_t> registers;
  Value missing;
};

/// The registers of a thread in one part of the tile, and the total of that part.
struct Part {
  SmallVector<Run> runs;
  Value total;
};

/// Emits one op, step by step.
class Cumulation {
public:
  Cumulation(CumulateOp op, Emitter &e, ValueRange operand)
      : e(e), fn(op.getFn()), element(op.getType().getElementType()),
        bytes(element.getIntOrFloatBitWidth() / 8), layout(op.getType().getLinearLayout()),
        dim(op.getDim()), reversed(op.getReversed()), scratch(op.getScratch()) {
    for (auto [i, value] : llvm::enumerate(operand)) {
      parts[layout.getRegister(i)] = {{Run{{int64_t(i)}, Value()}}, value};
      values.push_back(op.getExclusive() ? Value() : value);
    }
  }

  SmallVector<Value> run() {
    for (const CumulationStep &step : planCumulation(layout, dim)) {
      if (step.kind == CumulationStep::Registers)
        mergeUpTo(step.after);
      else if (step.kind == CumulationStep::Lanes)
        addLanes(int64_t(1) << step.bit);
      else
        addWarps(step);
    }
    mergeUpTo(layout.getExtent(dim));
    for (auto &[at, part] : parts)
      for (Run &run : part.runs)
        for (int64_t i : run.registers) {
          values[i] = combine(run.missing, values[i]);
          if (!values[i])
            values[i] = nothing();
        }
    return values;
  }

private:
  /// Null is nothing.
  Value combine(Value a, Value b) {
    if (!a || !b)
      return a ? a : b;
    return mirage::thread::combine(e, fn, a, b);
  }

  Value nothing() { return identity(e, fn, element); }

  void setAlong(Coord &at, int64_t value) { (dim == 0 ? at.row : at.col) = value; }

  /// Joins the parts of one thread that are in the same `extent` elements, in their order.
  void mergeUpTo(int64_t extent) {
    std::map<Coord, Part> merged;
    auto merge = [&](Coord at, Part &part) {
      setAlong(at, at[dim] - at[dim] % extent);
      auto [it, isFirst] = merged.try_emplace(at, part);
      if (isFirst)
        return;
      Part &before = it->second;
      for (Run &run : part.runs)
        addTo(run, before.total, before.runs);
      before.total = combine(before.total, part.total);
    };
    if (reversed)
      for (auto &[at, part] : llvm::reverse(parts))
        merge(at, part);
    else
      for (auto &[at, part] : parts)
        merge(at, part);
    parts = std::move(merged);
  }

  /// Appends a run to `runs`, with a value before it: registers that lack nothing else get it now.
  void addTo(Run &run, Value before, SmallVector<Run> &runs) {
    if (run.missing) {
      runs.push_back({run.registers, combine(before, run.missing)});
      return;
    }
    for (int64_t i : run.registers)
      values[i] = combine(before, values[i]);
    llvm::append_range(runs.front().registers, run.registers);
  }

  void addLanes(int64_t mask) {
    auto isLater = reversed ? arith::CmpIPredicate::eq : arith::CmpIPredicate::ne;
    Value adds = e.compare(isLater, e.bitAnd(e.lane(), mask), e.i32(0));
    for (auto &[at, part] : parts) {
      Value other = e.shuffleXor(part.total, mask);
      addMissing(part, e.select(adds, other, nothing()));
      part.total = combine(part.total, other);
    }
  }

  void addMissing(Part &part, Value before) {
    for (Run &run : part.runs)
      run.missing = combine(before, run.missing);
  }

  /// The contribution of lanes and warps to the place of a total among those of one warp's part.
  LinearLayout getPlaces(const CumulationStep &step) {
    auto scaled = [&](ArrayRef<Coord> basis) {
      LinearLayout::Basis result(basis);
      for (Coord &vector : result)
        setAlong(vector, vector[dim] / step.after);
      return result;
    };
    return LinearLayout({}, scaled(layout.getLane()), scaled(layout.getWarp()));
  }

  /// True in one of the threads with the same total.
  Value isWriter(const CumulationStep &step, const LinearLayout &places) {
    LinearLayout::Basis warps(places.getWarp());
    for (auto [vector, place] : llvm::zip(layout.getWarp(), warps))
      if (vector[dim] >= step.before && vector[dim] < step.after)
        place = Coord{1, 1}; // another total
    return e.isLeader(LinearLayout({}, LinearLayout::Basis(places.getLane()), warps));
  }

  /// All warps write their totals, and each reads those before it.
  void addWarps(const CumulationStep &step) {
    LinearLayout places = getPlaces(step);
    int64_t others = layout.getExtent(1 - dim), count = step.after / step.before;
    int64_t partBytes = step.countTotals(layout, dim) / count * bytes;
    SmallVector<int64_t> bits;
    for (Coord vector : layout.getWarp())
      bits.push_back(vector[dim] < step.after ? vector[dim] / step.before : 0);
    Value number = e.linear(e.warp(), bits);
    Value place = e.add(e.mul(e.threadOffset(places, dim), others * bytes),
                        e.mul(e.threadOffset(places, 1 - dim), bytes));
    Value base = e.offset(e.shared(*scratch), place);
    auto placeOf = [&](Value start, Coord at) {
      return e.offset(start, (at[dim] / step.after * others + at[1 - dim]) * bytes);
    };
    e.barrier();
    e.ifThen(isWriter(step, places), [&] {
      Value start = e.offset(base, e.mul(number, partBytes));
      for (auto &[at, part] : parts)
        LLVM::StoreOp::create(e, part.total, placeOf(start, at), bytes);
    });
    e.barrier();
    for (auto &[at, part] : parts) {
      Value before, total;
      auto isLater = reversed ? arith::CmpIPredicate::slt : arith::CmpIPredicate::sgt;
      for (int64_t other = 0; other < count; ++other) {
        Value loaded =
            LLVM::LoadOp::create(e, element, e.offset(placeOf(base, at), other * partBytes), bytes);
        Value adds = e.compare(isLater, number, e.i32(other));
        before = combine(before, e.select(adds, loaded, nothing()));
        total = combine(total, loaded);
      }
      addMissing(part, before);
      part.total = total;
    }
  }

  Emitter &e;
  CumulateFn fn;
  Type element;
  int64_t bytes;
  const LinearLayout &layout;
  int64_t dim;
  bool reversed;
  std::optional<int64_t> scratch;
  /// The running total at each register; null if there is nothing before it.
  SmallVector<Value> values;
  /// By the first position of the part in lane 0 of warp 0.
  std::map<Coord, Part> parts;
};

struct CumulateLowering : ThreadPattern<CumulateOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult lower(CumulateOp op, Adaptor operands, Emitter &e,
                      Results &results) const override {
    if (int64_t bytes = op.getScratchBytes(); bytes && !op.getScratch())
      return missingScratch(op, bytes);
    results.push_back(Cumulation(op, e, operands.getOperand()).run());
    return success();
  }
};
} // namespace

void mirage::thread::populateCumulatePatterns(const TypeConverter &converter,
                                              RewritePatternSet &patterns) {
  patterns.add<CumulateLowering>(converter, patterns.getContext());
}
