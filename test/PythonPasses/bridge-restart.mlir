// A later chunk gets a new worker after one died.
// RUN: not mirage-test-opt %s --split-input-file --mirage-test-bridge="action=exit" 2>&1 | FileCheck %s

// CHECK-COUNT-2: exited with status 3
module @m {
}

// -----

module @n {
}
