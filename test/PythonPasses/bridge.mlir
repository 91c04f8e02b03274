// Valid actions of a Python pass, seen from mirage-opt.
// RUN: mirage-test-opt %s --mirage-test-bridge | FileCheck %s --check-prefix=SAME
// RUN: mirage-test-opt %s --mirage-test-bridge="action=annotate text='two words' values=1,2" | FileCheck %s --check-prefix=ANNOTATE
// RUN: mirage-test-opt %s --mirage-test-bridge="action=annotate text=kept" --mlir-print-debuginfo | FileCheck %s --check-prefix=LOCATION
// RUN: mirage-test-opt %s --mirage-test-bridge="action=print text=hello" 2>&1 >/dev/null | FileCheck %s --check-prefix=PRINT
// RUN: mirage-test-opt %s --mirage-test-bridge="action=remark text=look" 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: mirage-test-opt %s --mirage-test-bridge="action=warn text=hmm" 2>&1 >/dev/null | FileCheck %s --check-prefix=WARN
// RUN: mirage-test-opt %s --pass-pipeline='builtin.module(cse,mirage-test-bridge{action=annotate text=first},canonicalize,mirage-test-bridge{action=annotate values=3})' \
// RUN:   | FileCheck %s --check-prefix=MIXED

// SAME: module @m {
// ANNOTATE: module @m attributes {bridge.text = "two words", bridge.values = array<i64: 1, 2>}
// LOCATION: bridge.text = "kept"
// LOCATION: kernel.graph @square({{.*}} loc("{{.*}}bridge.mlir":22:24)
// PRINT: printed: hello
// REMARK: bridge.mlir:[[#@LINE+6]]:3: remark: look
// WARN: bridge.mlir:[[#@LINE+5]]:3: warning: hmm
// The second run replaced what the first one wrote.
// MIXED: module @m attributes {bridge.text = "", bridge.values = array<i64: 3>}

module @m {
  kernel.graph @square(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
    %y = kernel.unary square %x : (tensor<4x8xf16>) -> tensor<4x8xf16>
    kernel.return %y : tensor<4x8xf16>
  }
}
