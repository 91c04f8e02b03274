// Kernels that share no memory with the previous ones run in parallel with them, and wait at the end.
// RUN: mirage-opt %s --mirage-overlap-launches | FileCheck %s
// RUN: mirage-opt %s --mirage-overlap-launches=follows=true | FileCheck %s --check-prefix=FOLLOWS

module attributes {gpu.container_module} {
  // Among other graphs the first kernel waits before it reads an input, which others write; the
  // last one lets them start.
  // CHECK-LABEL: gpu.func @values
  // CHECK-NOT: thread.dependent_wait
  // CHECK: thread.dependent_launch
  // CHECK: gpu.return
  // FOLLOWS-LABEL: gpu.func @values
  // FOLLOWS-NEXT: arith.constant
  // FOLLOWS-NEXT: thread.dependent_wait
  // FOLLOWS-NEXT: thread.dependent_launch
  // FOLLOWS-NEXT: memref.load
  // It lets the next one start at once, and waits at the end.
  // CHECK-LABEL: gpu.func @queries
  // CHECK-NEXT: thread.dependent_launch
  // CHECK: memref.load
  // CHECK: scf.for
  // CHECK: memref.store
  // CHECK: thread.dependent_wait
  // CHECK-NEXT: gpu.return
  // The next kernel would only wait, so it starts after the loop.
  // CHECK-LABEL: gpu.func @keys
  // CHECK-NEXT: thread.dependent_launch
  // CHECK: memref.load
  // CHECK: scf.for
  // CHECK: }
  // CHECK-NEXT: thread.dependent_wait
  // CHECK-NEXT: gpu.return
  // CHECK-LABEL: gpu.func @attends
  // CHECK-NEXT: arith.constant
  // CHECK-NEXT: thread.dependent_wait
  // CHECK-NOT: thread.dependent_launch
  // CHECK: gpu.return
  // FOLLOWS-LABEL: gpu.func @attends
  // FOLLOWS: thread.dependent_wait
  // FOLLOWS-NEXT: thread.dependent_launch
  // CHECK-LABEL: gpu.func @twice
  // CHECK: thread.dependent_wait
  // CHECK: memref.store
  gpu.module @kernels {
    gpu.func @values(%x: memref<64xf16>, %y: memref<64xf16>) kernel {
      %c0 = arith.constant 0 : index
      %e = memref.load %x[%c0] : memref<64xf16>
      memref.store %e, %y[%c0] : memref<64xf16>
      gpu.return
    }
    gpu.func @queries(%x: memref<64xf16>, %y: memref<64xf16>) kernel {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c8 = arith.constant 8 : index
      %e = memref.load %x[%c0] : memref<64xf16>
      scf.for %i = %c0 to %c8 step %c1 {
        memref.store %e, %y[%i] : memref<64xf16>
      }
      gpu.return
    }
    gpu.func @keys(%x: memref<64xf16>, %y: memref<64xf16>) kernel {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c8 = arith.constant 8 : index
      %e = memref.load %x[%c0] : memref<64xf16>
      scf.for %i = %c0 to %c8 step %c1 {
        memref.store %e, %y[%i] : memref<64xf16>
      }
      gpu.return
    }
    gpu.func @attends(%x: memref<64xf16>, %k: memref<64xf16>, %y: memref<64xf16>) kernel {
      %c0 = arith.constant 0 : index
      %e = memref.load %k[%c0] : memref<64xf16>
      memref.store %e, %y[%c0] : memref<64xf16>
      gpu.return
    }
    gpu.func @twice(%x: memref<64xf16>, %y: memref<64xf16>) kernel {
      %c0 = arith.constant 0 : index
      %e = memref.load %x[%c0] : memref<64xf16>
      memref.store %e, %y[%c0] : memref<64xf16>
      gpu.return
    }
    gpu.func @stores(%x: memref<64xf16>, %y: memref<8x64xf16>) kernel { gpu.return }
    gpu.func @reads(%x: memref<8x64xf16>, %y: memref<64xf16>) kernel { gpu.return }
    gpu.func @left(%x: memref<64xf16>, %y: memref<64xf16>) kernel { gpu.return }
    gpu.func @right(%x: memref<64xf16>, %y: memref<64xf16>) kernel { gpu.return }
    gpu.func @whole(%x: memref<128xf16>, %y: memref<64xf16>) kernel { gpu.return }
    gpu.func @writes(%x: memref<64xf16>, %y: memref<64xf16>) kernel { gpu.return }
    gpu.func @apart(%x: memref<64xf16>, %y: memref<64xf16>) kernel { gpu.return }
    gpu.func @needs_first(%x: memref<64xf16>, %y: memref<64xf16>) kernel { gpu.return }
  }

  // CHECK-LABEL: kernel.graph @layer
  // CHECK: @kernels::@values({{.*}}) grid [1, 1, 1] block [32, 1, 1] shared 0 :
  // CHECK: @kernels::@queries({{.*}}) grid [1, 1, 1] block [32, 1, 1] shared 0 dependent beside 1 :
  // CHECK: @kernels::@keys({{.*}}) grid [1, 1, 1] block [32, 1, 1] shared 0 dependent beside 2 :
  // CHECK: @kernels::@attends({{.*}}) grid [1, 1, 1] block [32, 1, 1] shared 0 dependent :
  // FOLLOWS-LABEL: kernel.graph @layer
  // FOLLOWS: @kernels::@values({{.*}}) grid [1, 1, 1] block [32, 1, 1] shared 0 dependent :
  // FOLLOWS: @kernels::@queries({{.*}}) grid [1, 1, 1] block [32, 1, 1] shared 0 dependent beside 1 :
  kernel.graph @layer(%x: tensor<64xf16>) -> (tensor<64xf16>, tensor<64xf16>) attributes {form = #kernel.form<thread>} {
    %v = kernel.invoke @kernels::@values(%x) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64xf16>) -> tensor<64xf16>
    %q = kernel.invoke @kernels::@queries(%x) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64xf16>) -> tensor<64xf16>
    %k = kernel.invoke @kernels::@keys(%x) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64xf16>) -> tensor<64xf16>
    %y = kernel.invoke @kernels::@attends(%q, %k) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64xf16>, tensor<64xf16>) -> tensor<64xf16>
    kernel.return %v, %y : tensor<64xf16>, tensor<64xf16>
  }

  // A kernel that is called again always waits first.
  // CHECK-LABEL: kernel.graph @again
  // CHECK: @kernels::@twice({{.*}}) grid [1, 1, 1] block [32, 1, 1] shared 0 :
  // CHECK: @kernels::@twice({{.*}}) grid [1, 1, 1] block [32, 1, 1] shared 0 dependent :
  kernel.graph @again(%x: tensor<64xf16>, %z: tensor<64xf16>) -> (tensor<64xf16>, tensor<64xf16>) attributes {form = #kernel.form<thread>} {
    %a = kernel.invoke @kernels::@twice(%x) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64xf16>) -> tensor<64xf16>
    %b = kernel.invoke @kernels::@twice(%z) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64xf16>) -> tensor<64xf16>
    kernel.return %a, %b : tensor<64xf16>, tensor<64xf16>
  }

  // A row is stored to memory that an earlier kernel reads.
  // CHECK-LABEL: kernel.graph @stored
  // CHECK: @kernels::@reads({{.*}}) grid [1, 1, 1] block [32, 1, 1] shared 0 :
  // CHECK: @kernels::@stores({{.*}}) grid [1, 1, 1] block [32, 1, 1] shared 0 dependent :
  kernel.graph @stored(%x: tensor<64xf16>, %cache: tensor<8x64xf16>, %at: tensor<1xi64>)
      -> (tensor<64xf16>, tensor<8x64xf16>) attributes {form = #kernel.form<thread>} {
    %r = kernel.invoke @kernels::@reads(%cache) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<8x64xf16>) -> tensor<64xf16>
    %b = kernel.invoke @kernels::@stores(%x) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64xf16>) -> tensor<1x64xf16>
    %c = kernel.index_copy %cache, %at, %b dim 0
         : (tensor<8x64xf16>, tensor<1xi64>, tensor<1x64xf16>) -> tensor<8x64xf16>
    kernel.return %r, %c : tensor<64xf16>, tensor<8x64xf16>
  }

  // The parts of a join are one tensor.
  // CHECK-LABEL: kernel.graph @joined
  // CHECK: @kernels::@left({{.*}}) grid [1, 1, 1] block [32, 1, 1] shared 0 :
  // CHECK: @kernels::@right({{.*}}) grid [1, 1, 1] block [32, 1, 1] shared 0 dependent :
  kernel.graph @joined(%x: tensor<64xf16>) -> tensor<64xf16> attributes {form = #kernel.form<thread>} {
    %a = kernel.invoke @kernels::@left(%x) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64xf16>) -> tensor<64xf16, #kernel.strides<[1], align = 16>>
    %b = kernel.invoke @kernels::@right(%x) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64xf16>) -> tensor<64xf16, #kernel.strides<[1], align = 16>>
    %c = kernel.concat %a, %b dim 0
         : (tensor<64xf16, #kernel.strides<[1], align = 16>>, tensor<64xf16, #kernel.strides<[1], align = 16>>) -> tensor<128xf16>
    %d = kernel.invoke @kernels::@whole(%c) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<128xf16>) -> tensor<64xf16>
    kernel.return %d : tensor<64xf16>
  }

  // It reads the result not of the previous kernel, but of the one before that, which may still run.
  // CHECK-LABEL: kernel.graph @still_running
  // CHECK: @kernels::@writes({{.*}}) grid [1, 1, 1] block [32, 1, 1] shared 0 :
  // CHECK: @kernels::@apart({{.*}}) grid [1, 1, 1] block [32, 1, 1] shared 0 dependent beside 1 :
  // CHECK: @kernels::@needs_first({{.*}}) grid [1, 1, 1] block [32, 1, 1] shared 0 dependent :
  kernel.graph @still_running(%x: tensor<64xf16>) -> (tensor<64xf16>, tensor<64xf16>) attributes {form = #kernel.form<thread>} {
    %a = kernel.invoke @kernels::@writes(%x) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64xf16>) -> tensor<64xf16>
    %b = kernel.invoke @kernels::@apart(%x) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64xf16>) -> tensor<64xf16>
    %v = kernel.reshape %a : (tensor<64xf16>) -> tensor<64xf16>
    %c = kernel.invoke @kernels::@needs_first(%v) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64xf16>) -> tensor<64xf16>
    kernel.return %b, %c : tensor<64xf16>, tensor<64xf16>
  }
}
