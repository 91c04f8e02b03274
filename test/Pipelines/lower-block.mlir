// RUN: %execute %s
// RUN: mirage-opt %s --mirage-lower-block=chip=sm_80 | FileCheck %s
// RUN: mirage-opt %s --mirage-lower-block=chip=sm_80 --mirage-thread-to-ptx=chip=sm_80 --mirage-print-ptx -o /dev/null | FileCheck %s --check-prefix=PTX

// Predefined ops get launches of their own, reshapes name the same memory, and
// slices that kernels load a part of it: two kernels.
// CHECK: kernel.graph @mixed
// CHECK-SAME: form = #kernel.form<thread>
// CHECK-NEXT: kernel.invoke @mixed_kernels::@mixed_0
// CHECK-NEXT: kernel.reshape
// CHECK-NEXT: kernel.slice {{.*}} -> tensor<16x8xf16, #kernel.strides<[16, 1], align = 16>>
// CHECK-NEXT: kernel.invoke @mixed_kernels::@mixed_1
// CHECK-NEXT: kernel.return
// PTX: .target sm_80
// PTX: .entry mixed_0
// PTX: .entry mixed_1
// PTX-NOT: .entry
kernel.graph @mixed(%x: tensor<8x64xf16>, %w: tensor<64x32xf16>) -> tensor<16x8xf16> attributes {form = #kernel.form<selected>} {
  %p = kernel.matmul %x, %w : (tensor<8x64xf16>, tensor<64x32xf16>) -> tensor<8x32xf16>
  %r = kernel.reshape %p : (tensor<8x32xf16>) -> tensor<16x16xf16>
  %s = kernel.slice %r [0, 8] : (tensor<16x16xf16>) -> tensor<16x8xf16>
  %y = kernel.unary silu %s : (tensor<16x8xf16>) -> tensor<16x8xf16>
  kernel.return %y : tensor<16x8xf16>
}
