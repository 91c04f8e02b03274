// A kernel that only waits lets the next one start before its own wait, if the next one can load data that no
// kernel that may still be running writes.
// RUN: mirage-opt %s --mirage-overlap-launches=follows=true | FileCheck %s

module attributes {gpu.container_module} {
  // The first one waits for kernels of other graphs, which may write the inputs.
  // CHECK-LABEL: gpu.func @first
  // CHECK-NEXT: thread.dependent_wait
  // CHECK-NEXT: thread.dependent_launch
  // CHECK-LABEL: gpu.func @combine
  // CHECK-NEXT: thread.dependent_launch
  // CHECK-NEXT: thread.dependent_wait
  // CHECK-LABEL: gpu.func @project
  // The first kernel may still write %arg2 then.
  // CHECK: thread.copy_async %arg1
  // CHECK-NEXT: thread.dependent_wait
  // CHECK-NEXT: thread.dependent_launch
  // CHECK-NEXT: thread.copy_async %arg0
  // CHECK: thread.copy_async %arg2
  // The previous kernel writes the data that the next one could load.
  // CHECK-LABEL: gpu.func @plain
  // CHECK-NEXT: thread.dependent_wait
  // CHECK-NEXT: thread.dependent_launch
  // CHECK-LABEL: gpu.func @again
  // CHECK: thread.dependent_wait
  // CHECK: thread.copy_async %arg1
  // A kernel that streams inputs shares nothing with the previous one, but does not run in parallel with it:
  // it loads while the previous one waits.
  // CHECK-LABEL: gpu.func @softmax
  // CHECK-NEXT: thread.dependent_launch
  // CHECK-NEXT: thread.dependent_wait
  // CHECK-LABEL: gpu.func @streams
  // CHECK: thread.copy_async %arg1
  // CHECK-NEXT: thread.copy_async %arg0
  // CHECK-NEXT: thread.dependent_wait
  // CHECK: scf.for
  // A kernel with more blocks than can run at once starts only after that wait.
  // CHECK-LABEL: gpu.func @sums
  // CHECK-NEXT: thread.dependent_wait
  // CHECK-NEXT: thread.dependent_launch
  // CHECK-LABEL: gpu.func @many
  // CHECK: thread.copy_async %arg1
  // CHECK: thread.dependent_wait
  gpu.module @kernels {
    gpu.func @first(%x: memref<64x64xf16>, %y: memref<64x64xf16>) kernel { gpu.return }
    gpu.func @combine(%x: memref<64x64xf16>, %y: memref<64x64xf16>) kernel { gpu.return }
    gpu.func @project(%x: memref<64x64xf16>, %w: memref<64x64xf16>, %a: memref<64x64xf16>,
                      %y: memref<64x64xf16>) kernel {
      %c0 = arith.constant 0 : index
      %s = thread.shared_alloc 0 : <64x64xf16, swizzle = 128>
      %t = thread.shared_alloc 8192 : <64x64xf16, swizzle = 128>
      thread.copy_async %x[%c0, %c0] dims [0, 1] in_bounds [true, true] to %s
        : memref<64x64xf16> to <64x64xf16, swizzle = 128>
      %u = thread.shared_alloc 16384 : <64x64xf16, swizzle = 128>
      thread.copy_async %a[%c0, %c0] dims [0, 1] in_bounds [true, true] to %u
        : memref<64x64xf16> to <64x64xf16, swizzle = 128>
      thread.copy_async %w[%c0, %c0] dims [0, 1] in_bounds [true, true] to %t
        : memref<64x64xf16> to <64x64xf16, swizzle = 128>
      gpu.return
    }
    gpu.func @plain(%x: memref<64x64xf16>, %y: memref<64x64xf16>) kernel { gpu.return }
    gpu.func @again(%x: memref<64x64xf16>, %w: memref<64x64xf16>, %y: memref<64x64xf16>) kernel {
      %c0 = arith.constant 0 : index
      %s = thread.shared_alloc 0 : <64x64xf16, swizzle = 128>
      thread.copy_async %w[%c0, %c0] dims [0, 1] in_bounds [true, true] to %s
        : memref<64x64xf16> to <64x64xf16, swizzle = 128>
      gpu.return
    }
    gpu.func @softmax(%x: memref<64x64xf16>, %y: memref<64x64xf16>) kernel { gpu.return }
    gpu.func @streams(%x: memref<64x64xf16>, %w: memref<64x64xf16>, %y: memref<64x64xf16>) kernel {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %s = thread.shared_alloc 0 : <64x64xf16, swizzle = 128>
      %t = thread.shared_alloc 8192 : <64x64xf16, swizzle = 128>
      thread.copy_async %w[%c0, %c0] dims [0, 1] in_bounds [true, true] to %s
        : memref<64x64xf16> to <64x64xf16, swizzle = 128>
      thread.copy_async %x[%c0, %c0] dims [0, 1] in_bounds [true, true] to %t
        : memref<64x64xf16> to <64x64xf16, swizzle = 128>
      scf.for %i = %c0 to %c1 step %c1 {
        thread.copy_wait 0
      }
      gpu.return
    }
    gpu.func @sums(%x: memref<64x64xf16>, %y: memref<64x64xf16>) kernel { gpu.return }
    gpu.func @many(%x: memref<64x64xf16>, %w: memref<64x64xf16>, %y: memref<64x64xf16>) kernel {
      %c0 = arith.constant 0 : index
      %s = thread.shared_alloc 0 : <64x64xf16, swizzle = 128>
      thread.copy_async %w[%c0, %c0] dims [0, 1] in_bounds [true, true] to %s
        : memref<64x64xf16> to <64x64xf16, swizzle = 128>
      gpu.return
    }
  }

  kernel.graph @layer(%x: tensor<64x64xf16>, %w: tensor<64x64xf16>) -> tensor<64x64xf16>
      attributes {form = #kernel.form<thread>} {
    %a = kernel.invoke @kernels::@first(%x) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64x64xf16>) -> tensor<64x64xf16>
    %b = kernel.invoke @kernels::@combine(%a) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64x64xf16>) -> tensor<64x64xf16>
    %c = kernel.invoke @kernels::@project(%b, %w, %a) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf16>
    %d = kernel.invoke @kernels::@plain(%c) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64x64xf16>) -> tensor<64x64xf16>
    %e = kernel.invoke @kernels::@again(%d, %d) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf16>
    kernel.return %e : tensor<64x64xf16>
  }

  // CHECK-LABEL: kernel.graph @routed
  // CHECK: kernel.invoke @kernels::@softmax
  // CHECK: kernel.invoke @kernels::@streams({{.*}}) grid [1, 1, 1] block [32, 1, 1] shared 0 dependent :
  kernel.graph @routed(%x: tensor<64x64xf16>, %w: tensor<64x64xf16>)
      -> (tensor<64x64xf16>, tensor<64x64xf16>) attributes {form = #kernel.form<thread>} {
    %a = kernel.invoke @kernels::@first(%x) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64x64xf16>) -> tensor<64x64xf16>
    %b = kernel.invoke @kernels::@plain(%a) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64x64xf16>) -> tensor<64x64xf16>
    %c = kernel.invoke @kernels::@softmax(%b) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64x64xf16>) -> tensor<64x64xf16>
    %d = kernel.invoke @kernels::@streams(%a, %w) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf16>
    kernel.return %c, %d : tensor<64x64xf16>, tensor<64x64xf16>
  }

  kernel.graph @wide(%x: tensor<64x64xf16>, %w: tensor<64x64xf16>) -> tensor<64x64xf16>
      attributes {form = #kernel.form<thread>} {
    %a = kernel.invoke @kernels::@first(%x) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64x64xf16>) -> tensor<64x64xf16>
    %b = kernel.invoke @kernels::@sums(%a) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64x64xf16>) -> tensor<64x64xf16>
    %c = kernel.invoke @kernels::@many(%b, %w) grid [8016, 1, 1] block [64, 1, 1] shared 0
         : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf16>
    kernel.return %c : tensor<64x64xf16>
  }
}
