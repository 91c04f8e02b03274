// Any failure of a Python pass is a located error and a non-zero exit, never a traceback.
// RUN: not mirage-test-opt %s --mirage-test-bridge="action=fail text='cannot do it'" 2>&1 | FileCheck %s --check-prefix=FAIL --implicit-check-not=Traceback
// RUN: not mirage-test-opt %s --mirage-test-bridge="action=fail-at-op text='not this op'" 2>&1 | FileCheck %s --check-prefix=ATOP
// RUN: not mirage-test-opt %s --mirage-test-bridge="action=raise text=key" 2>&1 | FileCheck %s --check-prefix=RAISE --implicit-check-not=Traceback
// RUN: not env MIRAGE_DEBUG=1 mirage-test-opt %s --mirage-test-bridge="action=raise text=key" 2>&1 | FileCheck %s --check-prefix=DEBUG
// RUN: not mirage-test-opt %s --mirage-test-bridge="action=invalid" 2>&1 | FileCheck %s --check-prefix=INVALID --implicit-check-not=Traceback
// RUN: not mirage-test-opt %s --mirage-test-bridge="action=dance" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not mirage-test-opt %s --mirage-test-bridge="steps=1" 2>&1 | FileCheck %s --check-prefix=OPTION

// The worker itself:
// RUN: not mirage-test-opt %s --mirage-test-bridge="action=exit" 2>&1 | FileCheck %s --check-prefix=EXIT
// RUN: not mirage-test-opt %s --mirage-test-bridge="action=crash" 2>&1 | FileCheck %s --check-prefix=CRASH
// RUN: not env MIRAGE_WORKER_TIMEOUT=1 mirage-test-opt %s --mirage-test-bridge="action=hang" 2>&1 | FileCheck %s --check-prefix=HANG
// RUN: not env MIRAGE_WORKER_TIMEOUT=soon mirage-test-opt %s --mirage-test-bridge 2>&1 | FileCheck %s --check-prefix=TIMEOUT
// RUN: not env MIRAGE_PYTHON=/no/such/python mirage-test-opt %s --mirage-test-bridge 2>&1 | FileCheck %s --check-prefix=NOPYTHON
// RUN: not env MIRAGE_PYTHON=false mirage-test-opt %s --mirage-test-bridge 2>&1 | FileCheck %s --check-prefix=NOMIRAGE

// FAIL: bridge-errors.mlir:[[#@LINE+15]]:1: error: cannot do it
// ATOP: bridge-errors.mlir:[[#@LINE+15]]:3: error: not this op
// RAISE: error: internal error in pass 'mirage-test-bridge': KeyError: 'key' (MIRAGE_DEBUG=1 shows the traceback)
// DEBUG: Traceback
// DEBUG: error: internal error in pass 'mirage-test-bridge'
// INVALID: bridge-errors.mlir:[[#@LINE+11]]:3: error: 'kernel.graph' op
// UNKNOWN: error: unknown action 'dance' (expected nothing,
// OPTION: no such option steps
// EXIT: error: pass 'mirage-test-bridge' failed: the python worker '{{.*}} -m mirage.passes.worker' exited with status 3
// CRASH: error: pass 'mirage-test-bridge' failed: the python worker '{{.*}}' was killed by signal 9
// HANG: error: pass 'mirage-test-bridge' failed: the python worker '{{.*}}' did not answer in time
// TIMEOUT: error: pass 'mirage-test-bridge' failed: MIRAGE_WORKER_TIMEOUT must be a positive number of seconds, but it is 'soon'
// NOPYTHON: error: pass 'mirage-test-bridge' failed: could not start '/no/such/python -m mirage.passes.worker': No such file or directory; set MIRAGE_PYTHON to an interpreter that can import mirage
// NOMIRAGE: the python worker 'false -m mirage.passes.worker' exited with status 1 before it was ready; set MIRAGE_PYTHON

module @m {
  kernel.graph @square(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
    %y = kernel.unary square %x : (tensor<4x8xf16>) -> tensor<4x8xf16>
    kernel.return %y : tensor<4x8xf16>
  }
}
