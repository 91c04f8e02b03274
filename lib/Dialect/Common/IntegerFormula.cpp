//===- IntegerFormula.cpp - exact arithmetic on integers ------------------===//

#include "mirage/Dialect/Common/IntegerFormula.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mirage;

static Type findType(MLIRContext *context, StringRef name) {
  int64_t bits = llvm::StringSwitch<int64_t>(name)
                     .Case("i1", 1)
                     .Case("i8", 8)
                     .Case("i16", 16)
                     .Case("i32", 32)
                     .Case("i64", 64)
                     .Default(0);
  if (bits)
    return IntegerType::get(context, bits);
  return llvm::StringSwitch<Type>(name)
      .Case("f16", Float16Type::get(context))
      .Case("bf16", BFloat16Type::get(context))
      .Case("f32", Float32Type::get(context))
      .Default(Type());
}

static std::optional<BitFn> findBitFn(StringRef name) {
  return llvm::StringSwitch<std::optional<BitFn>>(name)
      .Case("bit_and", BitFn::And)
      .Case("bit_or", BitFn::Or)
      .Case("bit_xor", BitFn::Xor)
      .Case("shift_left", BitFn::ShiftLeft)
      .Case("shift_right", BitFn::ShiftRight)
      .Default(std::nullopt);
}

/// Whether whole numbers stay whole numbers.
static bool isIntegral(UnaryFn fn) {
  return fn == UnaryFn::Neg || fn == UnaryFn::Abs || fn == UnaryFn::Square || fn == UnaryFn::Relu ||
         fn == UnaryFn::Not;
}
static bool isIntegral(BinaryFn fn) {
  return fn != BinaryFn::Div && fn != BinaryFn::Pow && fn != BinaryFn::CopySign;
}

/// Finds the function of a step and the number of its operands, or 0.
static size_t findFunction(StringRef name, FormulaStep &step) {
  if (std::optional<UnaryFn> fn = symbolizeUnaryFn(name); fn && isIntegral(*fn)) {
    step.kind = FormulaStep::Kind::Unary;
    step.unary = *fn;
    return 1;
  }
  if (std::optional<BinaryFn> fn = symbolizeBinaryFn(name); fn && isIntegral(*fn)) {
    step.kind = FormulaStep::Kind::Binary;
    step.binary = *fn;
    return 2;
  }
  if (std::optional<BitFn> fn = findBitFn(name)) {
    step.kind = FormulaStep::Kind::Bits;
    step.bits = *fn;
    return 2;
  }
  step.kind = FormulaStep::Kind::Cast;
  return name == "cast" ? 1 : 0;
}

/// Whether the results of a step may be floats, which no other step reads.
static bool mayGiveFloats(const FormulaStep &step) {
  return step.kind == FormulaStep::Kind::Cast || step.kind == FormulaStep::Kind::Pick;
}

/// Reads one step, the number `number` of a formula.
static FailureOr<FormulaStep> parseStep(IntegerFormula::EmitError emitError, MLIRContext *context,
                                        StringRef text, size_t number) {
  auto fail = [&](StringRef expected) -> FailureOr<FormulaStep> {
    return emitError() << "step " << number << ": expected " << expected << ", got '" << text
                       << "'";
  };
  auto [left, type] = text.split(" : ");
  SmallVector<StringRef> words;
  left.split(words, ' ');
  FormulaStep step;
  StringRef name = words.front();
  for (StringRef word : ArrayRef(words).drop_front()) {
    int64_t value;
    if (word.getAsInteger(10, value))
      return fail("numbers after the name of a function");
    step.args.push_back(value);
  }
  if (name == "load") {
    step.kind = FormulaStep::Kind::Load;
    return type.empty() ? FailureOr<FormulaStep>(step) : fail("a load without a type");
  }
  if (name == "table") {
    step.kind = FormulaStep::Kind::Table;
    bool isRank = step.args.size() == 1 && step.args.front() > 0;
    return type.empty() && isRank ? FailureOr<FormulaStep>(step)
                                  : fail("a table's rank, without a type");
  }
  step.type = findType(context, type);
  if (!step.type)
    return fail("a type of integers or floats of at least 16 bits after a colon");
  if (name == "position") {
    step.kind = FormulaStep::Kind::Position;
    if (step.args.size() != 1 || step.args.front() < 0 || !step.type.isInteger(64))
      return fail("a dimension, and i64");
    return step;
  }
  if (name == "constant") {
    step.kind = FormulaStep::Kind::Constant;
    if (step.args.size() != 1 || !step.type.isInteger())
      return fail("an integer");
    step.value = step.args.front();
    step.args.clear();
    return step;
  }
  size_t count = findFunction(name, step);
  if (name == "pick") {
    step.kind = FormulaStep::Kind::Pick;
    count = std::max<size_t>(step.args.size(), 2);
  }
  if (count == 0)
    return fail("a function of integers");
  if (step.args.size() != count)
    return fail(count == 1 ? "the number of an earlier step" : "the numbers of two earlier steps");
  for (int64_t arg : step.args)
    if (arg < 0 || arg >= int64_t(number))
      return fail("numbers of earlier steps");
  if (!step.type.isInteger() && !mayGiveFloats(step))
    return fail("a function whose results are integers");
  return step;
}

FailureOr<IntegerFormula> IntegerFormula::parse(EmitError emitError, ArrayAttr text) {
  IntegerFormula formula;
  for (Attribute line : text) {
    FailureOr<FormulaStep> step = parseStep(
        emitError, text.getContext(), cast<StringAttr>(line).getValue(), formula.steps.size());
    if (failed(step))
      return failure();
    int64_t first = formula.countOperands();
    if (step->kind == FormulaStep::Kind::Position)
      first += formula.count(FormulaStep::Kind::Position);
    bool mayFollow = step->kind > FormulaStep::Kind::Position;
    if (!mayFollow && first != int64_t(formula.steps.size()))
      return emitError() << "step " << formula.steps.size()
                         << ": expected loads and tables first, then positions, then all other "
                            "steps, got '"
                         << cast<StringAttr>(line).getValue() << "'";
    formula.steps.push_back(*step);
  }
  if (formula.countOperands() == int64_t(formula.steps.size()))
    return emitError() << "expected a formula that computes something, got loads alone";
  return formula;
}

int64_t IntegerFormula::count(FormulaStep::Kind kind) const {
  return llvm::count_if(steps, [&](const FormulaStep &step) { return step.kind == kind; });
}

SmallVector<int64_t> IntegerFormula::getPositions() const {
  SmallVector<int64_t> dims;
  for (const FormulaStep &step : steps)
    if (step.kind == FormulaStep::Kind::Position)
      dims.push_back(step.args.front());
  return dims;
}

int64_t IntegerFormula::getWork() const {
  constexpr int64_t division = 100, other = 2; // of 64 bits
  int64_t work = 0;
  for (const FormulaStep &step : steps) {
    bool divides = step.kind == FormulaStep::Kind::Binary &&
                   (step.binary == BinaryFn::FloorDiv || step.binary == BinaryFn::Remainder);
    work += divides ? division : other;
  }
  return work;
}

/// The number of arguments of a step that are not steps read as integers.
static size_t countOthers(const FormulaStep &step) {
  if (step.kind <= FormulaStep::Kind::Position)
    return step.args.size();
  return step.kind == FormulaStep::Kind::Pick;
}

LogicalResult IntegerFormula::verifyLoad(EmitError emitError, int64_t number, ShapedType tensor,
                                         ArrayRef<int64_t> shape) const {
  ArrayRef<int64_t> dims = steps[number].args;
  if (isTable(number)) {
    if (dims.front() != tensor.getRank())
      return emitError() << "step " << number << ": expected a table of rank " << dims.front()
                         << ", got " << tensor;
    return success();
  }
  if (int64_t(dims.size()) != tensor.getRank())
    return emitError() << "step " << number << ": expected a dimension for each of "
                       << tensor.getRank() << ", got " << dims.size();
  for (auto [i, dim] : llvm::enumerate(dims)) {
    bool known =
        dim >= -1 && dim < int64_t(shape.size()) && (dim < 0 || llvm::count(dims, dim) == 1);
    if (!known || tensor.getDimSize(i) != (dim < 0 ? 1 : shape[dim]))
      return emitError() << "step " << number << ": expected each dimension of " << tensor
                         << " along one of the result that has its size, or -1 where it is 1, "
                            "got "
                         << dim << " for dimension " << i;
  }
  return success();
}

/// Only picks read tables, with an index for each dimension.
LogicalResult IntegerFormula::verifyTables(EmitError emitError, TypeRange operands) const {
  for (auto [number, step] : llvm::enumerate(steps)) {
    if (step.kind <= FormulaStep::Kind::Position)
      continue;
    bool picks = step.kind == FormulaStep::Kind::Pick;
    if (picks && (!isTable(step.args.front()) ||
                  int64_t(step.args.size()) != steps[step.args.front()].args.front() + 1))
      return emitError() << "step " << number
                         << ": expected a table, and an index for each of its dimensions";
    if (picks && getElementTypeOrSelf(operands[step.args.front()]) != step.type)
      return emitError() << "step " << number << ": expected elements of type " << step.type
                         << ", got " << operands[step.args.front()];
    for (int64_t arg : ArrayRef(step.args).drop_front(picks))
      if (isTable(arg))
        return emitError() << "step " << number << ": expected no table, got step " << arg;
  }
  return success();
}

LogicalResult IntegerFormula::verify(EmitError emitError, TypeRange operands,
                                     ArrayRef<int64_t> shape, Type result) const {
  int64_t loads = countOperands();
  if (int64_t(operands.size()) != loads)
    return emitError() << "expected one load for each of the " << operands.size()
                       << " operands, got " << loads;
  for (auto [number, type] : llvm::enumerate(operands))
    if (failed(verifyLoad(emitError, number, cast<ShapedType>(type), shape)))
      return failure();
  if (failed(verifyTables(emitError, operands)))
    return failure();
  for (int64_t dim : getPositions())
    if (dim >= int64_t(shape.size()))
      return emitError() << "expected positions along one of " << shape.size()
                         << " dimensions, got " << dim;
  for (auto [number, step] : llvm::enumerate(steps))
    for (int64_t arg : ArrayRef(step.args).drop_front(countOthers(step))) {
      Type read = arg < loads ? getElementTypeOrSelf(operands[arg]) : steps[arg].type;
      bool converts = step.kind == FormulaStep::Kind::Cast && step.type.isInteger() && arg < loads;
      if (!read.isInteger() && !converts)
        return emitError() << "step " << number << ": expected integers, got " << read
                           << ", of which only operands are converted";
    }
  if (steps.back().type != result)
    return emitError() << "expected a result of the last step's type " << steps.back().type
                       << ", got " << result;
  return success();
}
