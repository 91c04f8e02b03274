//===- IntegerFormula.h - exact arithmetic on integers ----------*- C++ -*-===//
//
// The formula of `kernel.integers`, `block.integers` and `thread.integers`. Its meaning is defined
// in python/mirage/semantics/integer_formula.py, its lowering in
// lib/Conversion/ThreadToNVVM/IntegerFormulas.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_COMMON_INTEGERFORMULA_H
#define MIRAGE_DIALECT_COMMON_INTEGERFORMULA_H

#include "mirage/Dialect/Common/ScalarOps.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Diagnostics.h"

namespace mirage {

/// Functions of the bits of integers.
enum class BitFn { And, Or, Xor, ShiftLeft, ShiftRight };

/// One step: an operand, a number, or a function of the results of earlier steps.
struct FormulaStep {
  enum class Kind { Load, Table, Position, Constant, Unary, Binary, Bits, Cast, Pick };

  Kind kind = Kind::Load;
  /// The numbers of the steps that it reads. For a load, the dimensions of the result to which
  /// those of the operand correspond (-1: the operand has one index); for a table, its rank; for a
  /// pick, the table and the steps that are the indices along its dimensions; for a position, the
  /// dimension along which it counts.
  llvm::SmallVector<int64_t, 2> args;
  /// The value of a constant.
  int64_t value = 0;
  UnaryFn unary = UnaryFn::Neg;
  BinaryFn binary = BinaryFn::Add;
  BitFn bits = BitFn::And;
  /// The type of the result; null for loads, which have the operand's type.
  mlir::Type type;
};

/// Steps in order, loads and tables first: one for each operand. Then come positions. The
/// last one is the result.
class IntegerFormula {
public:
  using EmitError = llvm::function_ref<mlir::InFlightDiagnostic()>;

  /// Reads the text of a formula.
  static mlir::FailureOr<IntegerFormula> parse(EmitError emitError, mlir::ArrayAttr text);

  llvm::ArrayRef<FormulaStep> getSteps() const { return steps; }
  int64_t countOperands() const {
    return count(FormulaStep::Kind::Load) + count(FormulaStep::Kind::Table);
  }
  bool isTable(int64_t number) const { return steps[number].kind == FormulaStep::Kind::Table; }
  /// The dimensions along which positions count, in order.
  llvm::SmallVector<int64_t> getPositions() const;
  /// The instructions of an element, to rank layouts.
  int64_t getWork() const;
  /// Whether loads and types fit the tensors: floats are only converted, and dimensions
  /// have the result's sizes.
  mlir::LogicalResult verify(EmitError emitError, mlir::TypeRange operands,
                             llvm::ArrayRef<int64_t> shape, mlir::Type result) const;

private:
  mlir::LogicalResult verifyLoad(EmitError emitError, int64_t number, mlir::ShapedType tensor,
                                 llvm::ArrayRef<int64_t> shape) const;
  mlir::LogicalResult verifyTables(EmitError emitError, mlir::TypeRange operands) const;
  int64_t count(FormulaStep::Kind kind) const;

  llvm::SmallVector<FormulaStep> steps;
};

} // namespace mirage

#endif // MIRAGE_DIALECT_COMMON_INTEGERFORMULA_H
