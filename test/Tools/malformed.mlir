// Malformed input is a located error and a non-zero exit; nothing is written.
// RUN: not mirage-opt %s -o %t 2>&1 | FileCheck %s
// RUN: not test -e %t

// CHECK: malformed.mlir:[[#@LINE+2]]:{{[0-9]+}}: error: expected
kernel.graph @square(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %y = kernel.unary square %x (tensor<4x8xf16>) -> tensor<4x8xf16>
  kernel.return %y : tensor<4x8xf16>
}
