//===- ScalarOps.td - scalar functions shared by all dialects ---*- tablegen -*-===//
//
// The names of the scalar functions. Their meaning stands in
// python/mirage/semantics/scalar.py, their lowering in lib/Conversion/ThreadToNVVM/.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_COMMON_SCALAROPS_TD
#define MIRAGE_DIALECT_COMMON_SCALAROPS_TD

include "mlir/IR/EnumAttr.td"

class Mirage_EnumCase<string name, int value, string spelling> : I32EnumAttrCase<name, value, spelling>;

def Mirage_UnaryFn : I32EnumAttr<"UnaryFn", "a function of one scalar", [
    Mirage_EnumCase<"Neg", 0, "neg">,
    Mirage_EnumCase<"Abs", 1, "abs">,
    Mirage_EnumCase<"Exp", 2, "exp">,
    Mirage_EnumCase<"Log", 3, "log">,
    Mirage_EnumCase<"Sqrt", 4, "sqrt">,
    Mirage_EnumCase<"Rsqrt", 5, "rsqrt">,
    Mirage_EnumCase<"Reciprocal", 6, "reciprocal">,
    Mirage_EnumCase<"Square", 7, "square">,
    Mirage_EnumCase<"Sigmoid", 8, "sigmoid">,
    Mirage_EnumCase<"Silu", 9, "silu">,
    Mirage_EnumCase<"Gelu", 10, "gelu">,
    Mirage_EnumCase<"GeluTanh", 11, "gelu_tanh">,
    Mirage_EnumCase<"Relu", 12, "relu">,
    Mirage_EnumCase<"Tanh", 13, "tanh">]> {
  let cppNamespace = "::mirage";
}

def Mirage_BinaryFn : I32EnumAttr<"BinaryFn", "a function of two scalars", [
    Mirage_EnumCase<"Add", 0, "add">,
    Mirage_EnumCase<"Sub", 1, "sub">,
    Mirage_EnumCase<"Mul", 2, "mul">,
    Mirage_EnumCase<"Div", 3, "div">,
    Mirage_EnumCase<"Pow", 4, "pow">,
    Mirage_EnumCase<"Max", 5, "max">,
    Mirage_EnumCase<"Min", 6, "min">]> {
  let cppNamespace = "::mirage";
}

def Mirage_ReduceFn : I32EnumAttr<"ReduceFn", "an associative, commutative reduction", [
    Mirage_EnumCase<"Sum", 0, "sum">,
    Mirage_EnumCase<"Max", 1, "max">]> {
  let cppNamespace = "::mirage";
}

#endif // MIRAGE_DIALECT_COMMON_SCALAROPS_TD
