// Values that depend on each other are refused before any search.
// RUN: not mirage-opt %s --mirage-search 2>&1 | FileCheck %s --implicit-check-not=Traceback

kernel.graph @cycle(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  // CHECK: cyclic.mlir:[[#@LINE+1]]:8: error: operand #1 does not dominate this use
  %a = kernel.binary add %x, %b : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x8xf16>
  %b = kernel.unary exp %a : (tensor<4x8xf16>) -> tensor<4x8xf16>
  kernel.return %b : tensor<4x8xf16>
}
