//===- IntegerFormulas.cpp - exact arithmetic on integers -----------------===//
//
// Integers of all widths are i64 in registers, truth values are 1 or 0. LLVM narrows them where
// possible.
//
//===----------------------------------------------------------------------===//

#include "Patterns.h"
#include "TableRows.h"

#include "mirage/Dialect/Common/IntegerFormula.h"

#include "llvm/Support/ErrorHandling.h"

#include <cmath>
#include <map>

using namespace mlir;
using namespace mirage;
using namespace mirage::thread;

namespace {
using Predicate = arith::CmpIPredicate;

/// A tensor from which elements are picked.
struct Table {
  Value pointer;
  MemRefType type;
};

/// Computes the steps of a formula for one element.
class FormulaEmitter {
public:
  FormulaEmitter(Emitter &e, const IntegerFormula &formula, ArrayRef<Table> tables)
      : e(e), formula(formula), tables(tables) {}

  /// The last step, in the type `element`: i64, or f32.
  Value emit(ArrayRef<Value> operands, Type element) {
    for (const FormulaStep &step : formula.getSteps()) {
      bool isGiven =
          step.kind == FormulaStep::Kind::Load || step.kind == FormulaStep::Kind::Position;
      if (step.kind == FormulaStep::Kind::Table) {
        numbers.insert({results.size(), numbers.size()});
        results.push_back(Value());
      } else if (isGiven) {
        results.push_back(operands.front());
        operands = operands.drop_front();
      } else {
        results.push_back(emit(step));
      }
    }
    Value last = results.back();
    return last.getType() == element ? last : toFloat(last);
  }

private:
  Value arg(const FormulaStep &step, size_t number) { return results[step.args[number]]; }

  Value number(int64_t value) { return e.i64(value); }
  Value isZero(Value a) { return e.compare(Predicate::eq, a, number(0)); }
  Value isTrue(Value a) { return e.compare(Predicate::ne, a, number(0)); }
  Value truth(Value condition) { return e.createOrFold<arith::ExtUIOp>(e.getI64Type(), condition); }
  Value toFloat(Value a) { return arith::SIToFPOp::create(e, e.getF32Type(), a); }
  Value bitOr(Value a, Value b) { return e.createOrFold<arith::OrIOp>(a, b); }
  Value times(Value a, Value b) { return e.createOrFold<arith::MulIOp>(a, b); }

  /// Wraps around at the ends of a type.
  Value wrap(Value a, Type type) {
    unsigned bits = type.getIntOrFloatBitWidth();
    if (bits == 1 || bits == 64)
      return a;
    return e.createOrFold<arith::ExtSIOp>(e.getI64Type(), e.createOrFold<arith::TruncIOp>(type, a));
  }

  Value emit(const FormulaStep &step) {
    switch (step.kind) {
    case FormulaStep::Kind::Load:
    case FormulaStep::Kind::Table:
    case FormulaStep::Kind::Position:
      llvm_unreachable("an operand");
    case FormulaStep::Kind::Constant:
      return wrap(number(step.value), step.type);
    case FormulaStep::Kind::Unary:
      return wrap(emitUnary(step.unary, arg(step, 0)), step.type);
    case FormulaStep::Kind::Binary:
      return wrap(emitBinary(step.binary, arg(step, 0), arg(step, 1)), step.type);
    case FormulaStep::Kind::Bits:
      return wrap(emitBits(step, arg(step, 0), arg(step, 1)), step.type);
    case FormulaStep::Kind::Cast:
      return emitCast(arg(step, 0), step.type);
    case FormulaStep::Kind::Pick:
      return emitPick(step);
    }
    llvm_unreachable("covered");
  }

  /// The element of a table at an index for each dimension; 0 (of floats NaN) where one is outside.
  /// As unsigned numbers, negative ones are large. The table may have leading dimensions of size 1.
  Value emitPick(const FormulaStep &step) {
    const Table &table = tables[numbers.at(step.args.front())];
    ArrayRef<int64_t> indices = ArrayRef(step.args).drop_front();
    ArrayRef<int64_t> shape = table.type.getShape().take_back(indices.size());
    Value place = e.i64(0), inside;
    for (auto [number, size, stride] : llvm::zip_equal(indices, shape, getStrides(shape))) {
      Value own = e.compare(Predicate::ult, results[number], e.i64(size));
      inside = inside ? e.both(inside, own) : own;
      place = e.add(place, e.mul(results[number], stride));
    }
    int64_t bytes = table.type.getElementTypeBitWidth() / 8;
    Value pointer = e.offset(table.pointer, e.mul(e.select(inside, place, e.i64(0)), bytes));
    Value element = readIndex(e, table.type, pointer);
    if (auto type = dyn_cast<FloatType>(table.type.getElementType())) {
      if (!type.isF32())
        element = arith::ExtFOp::create(e, e.getF32Type(), element);
      return e.select(inside, element, e.f32(NAN));
    }
    if (bytes < 8)
      element = e.createOrFold<arith::ExtSIOp>(e.getI64Type(), element);
    return e.select(inside, element, e.i64(0));
  }

  /// Floats beyond the ends of i64 are its ends, NaN is 0; narrower types wrap around.
  Value emitCast(Value a, Type type) {
    if (isa<FloatType>(type))
      return toFloat(a);
    if (a.getType().isF32())
      a = e.intrinsic("llvm.fptosi.sat.i64.f32", e.getI64Type(), {a});
    return wrap(a, type);
  }

  Value emitUnary(UnaryFn fn, Value a) {
    switch (fn) {
    case UnaryFn::Neg:
      return e.sub(number(0), a);
    case UnaryFn::Abs:
      return e.select(e.compare(Predicate::slt, a, number(0)), e.sub(number(0), a), a);
    case UnaryFn::Square:
      return times(a, a);
    case UnaryFn::Relu:
      return e.createOrFold<arith::MaxSIOp>(a, number(0));
    case UnaryFn::Not:
      return truth(isZero(a));
    default:
      llvm_unreachable("not a function of integers (IntegerFormula::parse)");
    }
  }

  Value emitBinary(BinaryFn fn, Value a, Value b) {
    switch (fn) {
    case BinaryFn::Add:
      return e.add(a, b);
    case BinaryFn::Sub:
      return e.sub(a, b);
    case BinaryFn::Mul:
      return times(a, b);
    case BinaryFn::Max:
      return e.createOrFold<arith::MaxSIOp>(a, b);
    case BinaryFn::Min:
      return e.createOrFold<arith::MinSIOp>(a, b);
    case BinaryFn::Lt:
      return truth(e.compare(Predicate::slt, a, b));
    case BinaryFn::Le:
      return truth(e.compare(Predicate::sle, a, b));
    case BinaryFn::Eq:
      return truth(e.compare(Predicate::eq, a, b));
    case BinaryFn::Ne:
      return truth(e.compare(Predicate::ne, a, b));
    case BinaryFn::And:
      return truth(e.both(isTrue(a), isTrue(b)));
    case BinaryFn::Or:
      return truth(bitOr(isTrue(a), isTrue(b)));
    case BinaryFn::Xor:
      return truth(e.bitXor(isTrue(a), isTrue(b)));
    case BinaryFn::Keep:
      return e.select(isTrue(a), b, number(0));
    case BinaryFn::FloorDiv:
      return emitQuotient(a, b).first;
    case BinaryFn::Remainder:
      return emitQuotient(a, b).second;
    case BinaryFn::Div:
    case BinaryFn::Pow:
    case BinaryFn::CopySign:
      break;
    }
    llvm_unreachable("not a function of integers (IntegerFormula::parse)");
  }

  /// The quotient, rounded down, and the remainder. LLVM's division by 0 is undefined, and so is
  /// that of the least integer by -1: these are not divided.
  std::pair<Value, Value> emitQuotient(Value a, Value b) {
    Value byZero = isZero(b), turns = e.compare(Predicate::eq, b, number(-1));
    Value divisor = e.select(bitOr(byZero, turns), number(1), b);
    Value quotient = e.createOrFold<arith::DivSIOp>(a, divisor);
    Value left = e.sub(a, times(quotient, divisor));
    Value otherSign = e.compare(Predicate::slt, e.bitXor(left, divisor), number(0));
    Value isLess = e.both(isTrue(left), otherSign);
    quotient = e.select(isLess, e.sub(quotient, number(1)), quotient);
    left = e.select(isLess, e.add(left, divisor), left);
    quotient = e.select(turns, e.sub(number(0), a), quotient);
    return {e.select(byZero, number(0), quotient), e.select(byZero, number(0), left)};
  }

  Value emitBits(const FormulaStep &step, Value a, Value b) {
    switch (step.bits) {
    case BitFn::And:
      return e.createOrFold<arith::AndIOp>(a, b);
    case BitFn::Or:
      return bitOr(a, b);
    case BitFn::Xor:
      return e.bitXor(a, b);
    case BitFn::ShiftLeft:
    case BitFn::ShiftRight:
      break;
    }
    // Beyond the width all bits are shifted out: to the right, copies of the sign remain.
    int64_t width = step.type.getIntOrFloatBitWidth();
    Value isBeyond = e.compare(Predicate::uge, b, number(width));
    if (step.bits == BitFn::ShiftRight)
      return e.createOrFold<arith::ShRSIOp>(a, e.select(isBeyond, number(width - 1), b));
    // To the left in two halves, each of less than 64 bits. (A choice of 0 would become one
    // instruction, which reads the lower 32 bits of b alone.)
    Value all = e.select(isBeyond, number(width), b), half = e.shiftRight(all, 1);
    Value once = e.createOrFold<arith::ShLIOp>(a, half);
    return e.createOrFold<arith::ShLIOp>(once, e.sub(all, half));
  }

  Emitter &e;
  const IntegerFormula &formula;
  ArrayRef<Table> tables;
  std::map<int64_t, size_t> numbers; // of tables, by their step
  SmallVector<Value> results;
};

struct IntegersLowering : ThreadPattern<IntegersOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(IntegersOp op, Adaptor operands, Emitter &e,
                      Results &results) const override {
    FailureOr<IntegerFormula> formula =
        IntegerFormula::parse([&] { return op.emitOpError(); }, op.getFormula());
    if (failed(formula))
      return failure();
    SmallVector<SmallVector<Value>> given;
    for (auto [input, values] : llvm::zip_equal(op.getInputs(), operands.getInputs()))
      given.push_back(unpack(e, cast<FragmentType>(input.getType()), values));
    SmallVector<Table> tables;
    for (auto [table, pointer] : llvm::zip_equal(op.getTables(), operands.getTables()))
      tables.push_back({single(pointer), cast<MemRefType>(table.getType())});
    FragmentType type = op.getType();
    SmallVector<Value> scalars;
    for (int64_t i = 0; i < type.getNumRegisters(); ++i) {
      auto own = llvm::map_to_vector(given, [&](ArrayRef<Value> values) { return values[i]; });
      scalars.push_back(FormulaEmitter(e, *formula, tables).emit(own, type.getElementType()));
    }
    results.push_back(pack(e, type, scalars));
    return success();
  }
};
} // namespace

void mirage::thread::populateIntegerPatterns(const TypeConverter &converter,
                                             RewritePatternSet &patterns) {
  patterns.add<IntegersLowering>(converter, patterns.getContext());
}
