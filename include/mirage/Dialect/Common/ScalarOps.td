//===- ScalarOps.td - scalar functions shared by all dialects ---*- tablegen -*-===//
//
// The names of the scalar functions, and the facts about them that passes in C++
// need (ScalarOps.h). Their meaning is defined in python/mirage/semantics/scalar.py, their lowering
// in lib/Conversion/ThreadToNVVM/.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_COMMON_SCALAROPS_TD
#define MIRAGE_DIALECT_COMMON_SCALAROPS_TD

include "llvm/TableGen/SearchableTable.td"
include "mlir/IR/EnumAttr.td"

class Mirage_EnumCase<string name, int value, string spelling> : I32EnumAttrCase<name, value, spelling> {
  bits<8> number = value;
}

/// A function of one scalar: whether it is 0 at 0, and an element's work in
/// instructions, to rank layouts.
class Mirage_UnaryCase<string name, int value, string spelling, bit zero, int instructions>
    : Mirage_EnumCase<name, value, spelling> {
  bit zeroAtZero = zero;
  bits<8> work = instructions;
}

/// A function of two scalars: whether it is 0 where both are, and whether it is
/// a truth value.
class Mirage_BinaryCase<string name, int value, string spelling, bit zero, bit truth = 0>
    : Mirage_EnumCase<name, value, spelling> {
  bit zeroAtZero = zero;
  bit isTruth = truth;
}

def Mirage_UnaryFn : I32EnumAttr<"UnaryFn", "a function of one scalar", [
    Mirage_UnaryCase<"Neg", 0, "neg", 1, 1>,
    Mirage_UnaryCase<"Abs", 1, "abs", 1, 1>,
    Mirage_UnaryCase<"Exp", 2, "exp", 0, 4>,
    Mirage_UnaryCase<"Log", 3, "log", 0, 4>,
    Mirage_UnaryCase<"Sqrt", 4, "sqrt", 1, 4>,
    Mirage_UnaryCase<"Rsqrt", 5, "rsqrt", 0, 4>,
    Mirage_UnaryCase<"Reciprocal", 6, "reciprocal", 0, 4>,
    Mirage_UnaryCase<"Square", 7, "square", 1, 1>,
    Mirage_UnaryCase<"Sigmoid", 8, "sigmoid", 0, 4>,
    Mirage_UnaryCase<"Silu", 9, "silu", 1, 4>,
    Mirage_UnaryCase<"Gelu", 10, "gelu", 1, 20>,
    Mirage_UnaryCase<"GeluTanh", 11, "gelu_tanh", 1, 20>,
    Mirage_UnaryCase<"Relu", 12, "relu", 1, 1>,
    Mirage_UnaryCase<"Tanh", 13, "tanh", 1, 4>,
    Mirage_UnaryCase<"Not", 14, "not", 0, 1>,
    Mirage_UnaryCase<"Bias", 15, "bias", 0, 1>,
    Mirage_UnaryCase<"Floor", 16, "floor", 1, 1>,
    Mirage_UnaryCase<"Sin", 17, "sin", 1, 20>,
    Mirage_UnaryCase<"Cos", 18, "cos", 0, 20>,
    Mirage_UnaryCase<"RoundE4M3", 19, "round_e4m3", 1, 4>,
    Mirage_UnaryCase<"RoundE5M2", 20, "round_e5m2", 1, 4>,
    Mirage_UnaryCase<"Log1p", 21, "log1p", 1, 20>]> {
  let cppNamespace = "::mirage";
}

def Mirage_BinaryFn : I32EnumAttr<"BinaryFn", "a function of two scalars", [
    Mirage_BinaryCase<"Add", 0, "add", 1>,
    Mirage_BinaryCase<"Sub", 1, "sub", 1>,
    Mirage_BinaryCase<"Mul", 2, "mul", 1>,
    Mirage_BinaryCase<"Div", 3, "div", 0>,
    Mirage_BinaryCase<"Pow", 4, "pow", 0>,
    Mirage_BinaryCase<"Max", 5, "max", 1>,
    Mirage_BinaryCase<"Min", 6, "min", 1>,
    Mirage_BinaryCase<"Lt", 7, "lt", 1, 1>,
    Mirage_BinaryCase<"Le", 8, "le", 0, 1>,
    Mirage_BinaryCase<"Eq", 9, "eq", 0, 1>,
    Mirage_BinaryCase<"Ne", 10, "ne", 1, 1>,
    Mirage_BinaryCase<"And", 11, "and", 1, 1>,
    Mirage_BinaryCase<"Or", 12, "or", 1, 1>,
    Mirage_BinaryCase<"Xor", 13, "xor", 1, 1>,
    Mirage_BinaryCase<"FloorDiv", 14, "floor_div", 0>,
    Mirage_BinaryCase<"Remainder", 15, "remainder", 0>,
    Mirage_BinaryCase<"Keep", 16, "keep", 1>,
    Mirage_BinaryCase<"CopySign", 17, "copysign", 1>]> {
  let cppNamespace = "::mirage";
}

def Mirage_ReduceFn : I32EnumAttr<"ReduceFn", "an associative, commutative reduction", [
    Mirage_EnumCase<"Sum", 0, "sum">,
    Mirage_EnumCase<"Max", 1, "max">]> {
  let cppNamespace = "::mirage";
}

def Mirage_CumulateFn : I32EnumAttr<"CumulateFn", "what the elements so far are combined by", [
    Mirage_EnumCase<"Sum", 0, "sum">,
    Mirage_EnumCase<"Max", 1, "max">,
    Mirage_EnumCase<"Prod", 2, "prod">]> {
  let cppNamespace = "::mirage";
}

// As tables in C++ (llvm-tblgen -gen-searchable-tables).
def UnaryFacts : GenericTable {
  let FilterClass = "Mirage_UnaryCase";
  let Fields = ["number", "zeroAtZero", "work"];
}

def BinaryFacts : GenericTable {
  let FilterClass = "Mirage_BinaryCase";
  let Fields = ["number", "zeroAtZero", "isTruth"];
}

#endif // MIRAGE_DIALECT_COMMON_SCALAROPS_TD
