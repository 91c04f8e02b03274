// RUN: mirage-opt %s --mirage-expand-rings --allow-unregistered-dialect --verify-diagnostics

gpu.module @kernels {
  gpu.func @other(%x: !thread.ring<2, <64x64xf16, swizzle = 128>>) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %ring = thread.ring_create readers 4 : !thread.ring<2, <64x64xf16, swizzle = 128>>
    // expected-error @+1 {{expected a ring to be used by ring ops alone}}
    "test.op"(%ring) : (!thread.ring<2, <64x64xf16, swizzle = 128>>) -> ()
    gpu.return
  }
}
