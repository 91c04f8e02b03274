// RUN: mirage-opt %s --mirage-finish-binaries --verify-diagnostics

module attributes {gpu.container_module} {
  // expected-error @below {{expected a gpu.binary; the module was not serialized}}
  gpu.module @kernels {
    gpu.func @k() kernel {
      gpu.return
    }
  }
}
