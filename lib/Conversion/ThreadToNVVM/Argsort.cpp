//===- Argsort.cpp - the places of elements in order ----------------------===//
//
// A bitonic network (K. E. Batcher, Sorting networks and their applications,
// 1968). Every thread compares its elements with those whose position differs in
// one bit. Elements are compared together with their places, so no two are
// equal, and equal elements keep their order.
//
//===----------------------------------------------------------------------===//

#include "Patterns.h"

#include <map>

using namespace mlir;
using namespace mirage;
using namespace mirage::thread;

namespace {
using arith::CmpIPredicate;

/// An integer with the same order as the element, and the place; null if the place is the lower
/// half of the integer.
struct Element {
  Value key, place;
};

/// Emits one op, step by step.
class Sorting {
public:
  Sorting(ArgsortOp op, Emitter &e, ValueRange operand)
      : e(e), op(op), layout(op.getType().getLinearLayout()), dim(op.getDim()),
        extent(layout.getExtent(dim)), start(e.threadOffset(layout, dim)) {
    for (auto [i, value] : llvm::enumerate(operand)) {
      Coord at = layout.getRegister(i);
      elements.push_back(getElement(value, e.add(start, at[dim])));
      registers[at] = i;
    }
  }

  SmallVector<Value> run() {
    for (int64_t sorted = 2; sorted <= extent; sorted *= 2)
      for (int64_t distance = sorted / 2; distance > 0; distance /= 2)
        compare(distance, sorted);
    return llvm::map_to_vector(elements, [&](const Element &element) {
      if (!element.place)
        return e.bitAnd(element.key, 0xffffffff);
      return e.createOrFold<arith::ExtUIOp>(e.getI64Type(), element.place);
    });
  }

private:
  Element getElement(Value value, Value place) {
    Value key = op.isPacked() ? getOrdered(value) : value;
    unsigned width = key.getType().getIntOrFloatBitWidth();
    if (op.getDescending())
      key = e.bitXor(key, getInteger(key.getType(), -1));
    if (int64_t size = op.getSize(); size < extent)
      key = e.select(e.compare(CmpIPredicate::slt, place, e.i32(size)), key,
                     getInteger(key.getType(), llvm::maxIntN(width)));
    if (!op.isPacked())
      return {key, place};
    Value high = e.shiftLeft(e.createOrFold<arith::ExtSIOp>(e.getI64Type(), key), 32);
    Value low = e.createOrFold<arith::ExtUIOp>(e.getI64Type(), place);
    return {e.add(high, low), Value()};
  }

  Value getInteger(Type type, int64_t value) {
    return type.isInteger(64) ? e.i64(value) : e.i32(value);
  }

  /// The bits of a float as an integer of the same order: those of negative numbers except the sign
  /// are inverted. Both zeros are equal, and all NaNs.
  Value getOrdered(Value x) {
    Value bits = e.bitcast(x, e.getI32Type());
    Value magnitude = e.bitAnd(bits, 0x7fffffff);
    Value inverted = e.bitXor(bits, e.i32(0x7fffffff));
    Value isNegative = e.compare(CmpIPredicate::slt, bits, e.i32(0));
    Value key = e.select(isNegative, inverted, bits);
    key = e.select(e.compare(CmpIPredicate::eq, magnitude, e.i32(0)), e.i32(0), key);
    Value isNaN = e.compare(CmpIPredicate::sgt, magnitude, e.i32(0x7f800000));
    return e.select(isNaN, e.i32(0x7fffffff), key);
  }

  Value isLess(const Element &a, const Element &b) {
    Value less = e.compare(CmpIPredicate::slt, a.key, b.key);
    if (!a.place)
      return less;
    Value equal = e.compare(CmpIPredicate::eq, a.key, b.key);
    Value earlier = e.compare(CmpIPredicate::slt, a.place, b.place);
    return e.createOrFold<arith::OrIOp>(less, e.both(equal, earlier));
  }

  Element select(Value condition, const Element &a, const Element &b) {
    return {e.select(condition, a.key, b.key),
            a.place ? e.select(condition, a.place, b.place) : Value()};
  }

  /// The bit of the lane or the warp that is this bit of the position.
  static int64_t find(ArrayRef<Coord> basis, int64_t dim, int64_t bit) {
    auto it = llvm::find_if(basis, [&](Coord at) { return at[dim] == bit; });
    return it == basis.end() ? -1 : it - basis.begin();
  }

  /// Whether this bit of the position of a register is set.
  Value isSet(int64_t number, int64_t bit) {
    if (find(layout.getLane(), dim, bit) < 0 && find(layout.getWarp(), dim, bit) < 0)
      return e.i1(layout.getRegister(number)[dim] & bit);
    return e.compare(CmpIPredicate::ne, e.bitAnd(start, bit), e.i32(0));
  }

  /// Compares all pairs at a distance: runs of `sorted` elements ascend and descend in turns.
  void compare(int64_t distance, int64_t sorted) {
    int64_t lane = find(layout.getLane(), dim, distance);
    if (lane < 0 && find(layout.getWarp(), dim, distance) < 0)
      return compareRegisters(distance, sorted);
    SmallVector<Element> others;
    if (lane >= 0)
      for (const Element &mine : elements) {
        Value place = mine.place ? e.shuffleXor(mine.place, int64_t(1) << lane) : Value();
        others.push_back({e.shuffleXor(mine.key, int64_t(1) << lane), place});
      }
    else
      others = exchange(distance);
    for (auto [i, mine] : llvm::enumerate(elements)) {
      // the smaller one stays if it is the first of an ascending pair or the second of a descending
      // one
      Value larger = e.bitXor(isSet(i, distance), isSet(i, sorted));
      Value taken = e.bitXor(isLess(others[i], mine), larger);
      mine = select(taken, others[i], mine);
    }
  }

  void compareRegisters(int64_t distance, int64_t sorted) {
    for (auto &[at, i] : registers) {
      if (at[dim] & distance)
        continue;
      Coord other = at;
      (dim == 0 ? other.row : other.col) += distance;
      Element &first = elements[i], &second = elements[registers.at(other)];
      Value swapped = e.bitXor(isLess(second, first), isSet(i, sorted));
      std::tie(first, second) =
          std::pair(select(swapped, second, first), select(swapped, first, second));
    }
  }

  /// Exchanges elements with other warps through shared memory.
  SmallVector<Element> exchange(int64_t distance) {
    Value other = e.mul(e.threadOffset(layout, 1 - dim), extent);
    Value keys = e.shared(*op.getScratch());
    Value places = e.offset(keys, extent * layout.getExtent(1 - dim) * 8);
    auto visit = [&](Value position, function_ref<void(size_t, Value, Value)> body) {
      Value number = e.add(other, position);
      Value key = e.offset(keys, e.mul(number, 8)), place = e.offset(places, e.mul(number, 4));
      for (size_t i = 0; i < elements.size(); ++i) {
        Coord at = layout.getRegister(i);
        int64_t offset = at[1 - dim] * extent + at[dim];
        body(i, e.offset(key, offset * 8), e.offset(place, offset * 4));
      }
    };
    e.barrier();
    e.ifThen(e.isLeader(layout), [&] { // of several warps that hold the same
      visit(start, [&](size_t i, Value key, Value place) {
        LLVM::StoreOp::create(e, elements[i].key, key, 8);
        if (elements[i].place)
          LLVM::StoreOp::create(e, elements[i].place, place, 4);
      });
    });
    e.barrier();
    SmallVector<Element> others;
    visit(e.bitXor(start, e.i32(distance)), [&](size_t i, Value key, Value place) {
      Value loaded = LLVM::LoadOp::create(e, e.getI64Type(), key, 8);
      others.push_back({loaded, elements[i].place
                                    ? Value(LLVM::LoadOp::create(e, e.getI32Type(), place, 4))
                                    : Value()});
    });
    return others;
  }

  Emitter &e;
  ArgsortOp op;
  const LinearLayout &layout;
  int64_t dim, extent;
  /// The part of a register's position that lane and warp determine.
  Value start;
  SmallVector<Element> elements;
  /// By the position in lane 0 of warp 0.
  std::map<Coord, size_t> registers;
};

struct ArgsortLowering : ThreadPattern<ArgsortOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult lower(ArgsortOp op, Adaptor operands, Emitter &e, Results &results) const override {
    if (int64_t bytes = op.getScratchBytes(); bytes && !op.getScratch())
      return missingScratch(op, bytes);
    results.push_back(Sorting(op, e, operands.getOperand()).run());
    return success();
  }
};
} // namespace

void mirage::thread::populateArgsortPatterns(const TypeConverter &converter,
                                             RewritePatternSet &patterns) {
  patterns.add<ArgsortLowering>(converter, patterns.getContext());
}
