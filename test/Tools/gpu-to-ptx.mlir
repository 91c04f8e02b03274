// The upstream part of the lowering to PTX works in this tool: without the conversion interfaces,
// convert-gpu-to-nvvm would silently leave ops unconverted.
// RUN: mirage-opt %s --pass-pipeline='builtin.module(gpu.module(convert-gpu-to-nvvm{use-bare-ptr-memref-call-conv=1},reconcile-unrealized-casts),nvvm-attach-target{chip=sm_90a features=+ptx80 O=3},gpu-module-to-binary{format=isa})' \
// RUN:   | FileCheck %s

// CHECK: gpu.binary @kernels
// CHECK-SAME: .target sm_90a
// CHECK-SAME: .visible .entry scale
gpu.module @kernels {
  gpu.func @scale(%x: memref<128xf32>, %a: f32) kernel {
    %i = gpu.thread_id x
    %v = memref.load %x[%i] : memref<128xf32>
    %e = math.exp2 %a : f32
    %p = arith.mulf %v, %a : f32
    memref.store %p, %x[%i] : memref<128xf32>
    gpu.return
  }
}
