// Consecutive kernels start early, and wait for the data that they read.
// RUN: mirage-opt %s --mirage-overlap-launches | FileCheck %s
// RUN: mirage-opt %s --mirage-overlap-launches=chip=sm_80 | FileCheck %s --check-prefix=OLD

// OLD-NOT: dependent
module attributes {gpu.container_module} {
  // The first one lets the others start, and waits for nothing.
  // CHECK-LABEL: gpu.func @first
  // CHECK-NEXT: thread.dependent_launch
  // CHECK-NEXT: gpu.return
  // CHECK-LABEL: gpu.func @middle
  // CHECK-NEXT: thread.dependent_wait
  // CHECK-NEXT: thread.dependent_launch
  // CHECK-NEXT: gpu.return
  // CHECK-LABEL: gpu.func @last
  // CHECK-NEXT: thread.dependent_wait
  // CHECK-NEXT: gpu.return
  // CHECK-LABEL: gpu.func @whole
  // CHECK-NEXT: thread.dependent_wait
  // CHECK-NEXT: gpu.return
  // The next kernel may start while this one loops.
  // CHECK-LABEL: gpu.func @loops
  // CHECK-NEXT: thread.dependent_launch
  // CHECK: scf.for
  // Data that is already available (an input in all calls of the kernel) is loaded before the wait, with the
  // ops that this requires; results of other kernels, and later ops, are unchanged.
  // CHECK-LABEL: gpu.func @streams
  // CHECK: thread.copy_async %arg1[%c0, %c0]
  // CHECK: %[[TWICE:.+]] = arith.muli %block_id_x, %c8
  // CHECK: thread.copy_async %arg1[%[[TWICE]], %c0]
  // CHECK-NEXT: thread.dependent_wait
  // CHECK-NEXT: thread.dependent_launch
  // CHECK-NEXT: thread.copy_async %arg0
  // CHECK-NEXT: thread.copy_commit
  // CHECK-NOT: thread.copy_async %arg1
  // CHECK: thread.copy_commit
  // CHECK: scf.for
  // An input of one call is written by a kernel before another call.
  // CHECK-LABEL: gpu.func @both
  // CHECK: %block_id_x
  // CHECK: thread.dependent_wait
  // CHECK-NEXT: thread.dependent_launch
  // CHECK-NEXT: thread.copy_async %arg1
  // CHECK-LABEL: gpu.func @early
  // CHECK-NEXT: thread.dependent_launch
  // CHECK: scf.for
  // CHECK-LABEL: gpu.func @sets_up
  // CHECK: thread.mbarrier_init
  // CHECK-NEXT: thread.barrier
  // CHECK-NEXT: thread.dependent_wait
  // CHECK-NEXT: memref.load
  // The index of a row is an input: it is read before the wait, the row is stored after it.
  // CHECK-LABEL: gpu.func @stores
  // CHECK: memref.load %arg1
  // CHECK-NEXT: arith.index_cast
  // CHECK-NEXT: thread.dependent_wait
  // CHECK: memref.load %arg0
  // A row that was stored to an input is not read before the wait.
  // CHECK-LABEL: gpu.func @attends
  // CHECK-NOT: memref.load
  // CHECK: thread.dependent_wait
  // CHECK-NEXT: memref.load %arg0
  // Results of a kernel that had ended when the previous one started are read before the wait; those of the
  // previous one are not, nor those of kernels in parallel with it.
  // CHECK-LABEL: gpu.func @third
  // CHECK: memref.load %arg0
  // CHECK-NEXT: thread.dependent_wait
  // CHECK-NEXT: thread.dependent_launch
  // CHECK-NEXT: memref.load %arg1
  // CHECK-LABEL: gpu.func @beside
  // CHECK-NEXT: thread.dependent_launch
  // CHECK-NEXT: thread.dependent_wait
  // CHECK-LABEL: gpu.func @after_both
  // CHECK-NOT: memref.load
  // CHECK: thread.dependent_wait
  // CHECK-NEXT: memref.load %arg0
  // CHECK-LABEL: gpu.func @alone
  // CHECK-NEXT: gpu.return
  gpu.module @kernels {
    gpu.func @first(%x: memref<64xf16>, %y: memref<64xf16>) kernel { gpu.return }
    gpu.func @middle(%x: memref<64xf16>, %y: memref<64xf16>) kernel { gpu.return }
    gpu.func @last(%x: memref<8x8xf16>, %y: memref<8x8xf16>) kernel { gpu.return }
    gpu.func @whole(%x: memref<128xf16>, %y: memref<128xf16>) kernel { gpu.return }
    gpu.func @loops(%x: memref<64xf16>, %y: memref<64xf16>) kernel {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c8 = arith.constant 8 : index
      %thread = gpu.thread_id x
      %e = memref.load %x[%thread] : memref<64xf16>
      scf.for %i = %c0 to %c8 step %c1 {
        memref.store %e, %y[%i] : memref<64xf16>
      }
      %some = arith.cmpi ult, %thread, %c8 : index
      scf.if %some {
        scf.for %i = %c0 to %c8 step %c1 {
          scf.for %j = %c0 to %c8 step %c1 {
            memref.store %e, %y[%j] : memref<64xf16>
          }
        }
      }
      gpu.return
    }
    gpu.func @streams(%x: memref<64x64xf16>, %w: memref<64x64xf16>, %y: memref<64x64xf16>) kernel {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c8 = arith.constant 8 : index
      %block = gpu.block_id x
      %s = thread.shared_alloc 0 : <2x64x64xf16, swizzle = 128>
      %t = thread.shared_alloc 16384 : <2x64x64xf16, swizzle = 128>
      %t0 = thread.slot %t[%c0] : <2x64x64xf16, swizzle = 128>
      thread.copy_async %w[%c0, %c0] dims [0, 1] in_bounds [true, true] to %t0
        : memref<64x64xf16> to <64x64xf16, swizzle = 128>
      %s0 = thread.slot %s[%c0] : <2x64x64xf16, swizzle = 128>
      thread.copy_async %x[%c0, %c0] dims [0, 1] in_bounds [true, true] to %s0
        : memref<64x64xf16> to <64x64xf16, swizzle = 128>
      thread.copy_commit
      %twice = arith.muli %block, %c8 : index
      %t1 = thread.slot %t[%c1] : <2x64x64xf16, swizzle = 128>
      thread.copy_async %w[%twice, %c0] dims [0, 1] in_bounds [true, true] to %t1
        : memref<64x64xf16> to <64x64xf16, swizzle = 128>
      thread.copy_commit
      scf.for %i = %c0 to %c8 step %c1 {
        thread.copy_wait 0
      }
      gpu.return
    }
    gpu.func @both(%x: memref<64x64xf16>, %w: memref<64x64xf16>, %y: memref<64x64xf16>) kernel {
      %c0 = arith.constant 0 : index
      %block = gpu.block_id x
      %t = thread.shared_alloc 0 : <1x64x64xf16, swizzle = 128>
      %t0 = thread.slot %t[%c0] : <1x64x64xf16, swizzle = 128>
      thread.copy_async %w[%block, %c0] dims [0, 1] in_bounds [true, true] to %t0
        : memref<64x64xf16> to <64x64xf16, swizzle = 128>
      thread.copy_commit
      gpu.return
    }
    gpu.func @early(%x: memref<64x64xf16>, %y: memref<64x64xf16>) kernel {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c8 = arith.constant 8 : index
      scf.for %i = %c0 to %c8 step %c1 {
        thread.copy_wait 0
      }
      gpu.return
    }
    // Before the first access to a tensor, not before accesses to shared memory.
    gpu.func @sets_up(%x: memref<64xf16>, %y: memref<64xf16>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
      %c0 = arith.constant 0 : index
      %full = thread.mbarrier_alloc 0 : !thread.mbarrier<1>
      thread.mbarrier_init %full arrivals 1 : !thread.mbarrier<1>
      thread.barrier
      %e = memref.load %x[%c0] : memref<64xf16>
      memref.store %e, %y[%c0] : memref<64xf16>
      gpu.return
    }
    gpu.func @stores(%x: memref<64xf16>, %at: memref<1xi64>, %y: memref<8x64xf16>) kernel {
      %c0 = arith.constant 0 : index
      %index = memref.load %at[%c0] : memref<1xi64>
      %row = arith.index_cast %index : i64 to index
      %e = memref.load %x[%c0] : memref<64xf16>
      memref.store %e, %y[%row, %c0] : memref<8x64xf16>
      gpu.return
    }
    gpu.func @attends(%x: memref<8x64xf16>, %y: memref<64xf16>) kernel {
      %c0 = arith.constant 0 : index
      %e = memref.load %x[%c0, %c0] : memref<8x64xf16>
      memref.store %e, %y[%c0] : memref<64xf16>
      gpu.return
    }
    gpu.func @third(%x: memref<64xf16>, %y: memref<64xf16>, %z: memref<64xf16>) kernel {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %d = memref.load %x[%c0] : memref<64xf16>
      %e = memref.load %y[%c0] : memref<64xf16>
      memref.store %d, %z[%c0] : memref<64xf16>
      memref.store %e, %z[%c1] : memref<64xf16>
      gpu.return
    }
    gpu.func @beside(%x: memref<64xf16>, %y: memref<64xf16>) kernel { gpu.return }
    gpu.func @after_both(%x: memref<64xf16>, %y: memref<64xf16>, %z: memref<64xf16>) kernel {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %d = memref.load %x[%c0] : memref<64xf16>
      %e = memref.load %y[%c0] : memref<64xf16>
      memref.store %d, %z[%c0] : memref<64xf16>
      memref.store %e, %z[%c1] : memref<64xf16>
      gpu.return
    }
    gpu.func @alone(%x: memref<64xf16>, %y: memref<64xf16>) kernel { gpu.return }
  }

  // CHECK-LABEL: kernel.graph @chain
  // CHECK: kernel.invoke @kernels::@first({{.*}}) grid [1, 1, 1] block [32, 1, 1] shared 0 :
  // CHECK: kernel.invoke @kernels::@middle({{.*}}) grid [1, 1, 1] block [32, 1, 1] shared 0 dependent :
  // CHECK: kernel.invoke @kernels::@middle({{.*}}) grid [1, 1, 1] block [32, 1, 1] shared 0 dependent :
  // CHECK: kernel.reshape
  // CHECK: kernel.invoke @kernels::@last({{.*}}) grid [1, 1, 1] block [32, 1, 1] shared 0 dependent :
  kernel.graph @chain(%x: tensor<64xf16>) -> tensor<8x8xf16> attributes {form = #kernel.form<thread>} {
    %a = kernel.invoke @kernels::@first(%x) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64xf16>) -> tensor<64xf16>
    %b = kernel.invoke @kernels::@middle(%a) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64xf16>) -> tensor<64xf16>
    %c = kernel.invoke @kernels::@middle(%b) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64xf16>) -> tensor<64xf16>
    %d = kernel.reshape %c : (tensor<64xf16>) -> tensor<8x8xf16>
    %e = kernel.invoke @kernels::@last(%d) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<8x8xf16>) -> tensor<8x8xf16>
    kernel.return %e : tensor<8x8xf16>
  }

  kernel.graph @looped(%x: tensor<64xf16>) -> tensor<64xf16> attributes {form = #kernel.form<thread>} {
    %a = kernel.invoke @kernels::@loops(%x) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64xf16>) -> tensor<64xf16>
    %b = kernel.invoke @kernels::@last(%a) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64xf16>) -> tensor<64xf16>
    kernel.return %b : tensor<64xf16>
  }

  kernel.graph @barriers(%x: tensor<64xf16>) -> tensor<64xf16> attributes {form = #kernel.form<thread>} {
    %a = kernel.invoke @kernels::@first(%x) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64xf16>) -> tensor<64xf16>
    %b = kernel.invoke @kernels::@sets_up(%a) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64xf16>) -> tensor<64xf16>
    kernel.return %b : tensor<64xf16>
  }

  // An update is where its row is stored.
  // CHECK-LABEL: kernel.graph @updated
  // CHECK: kernel.invoke @kernels::@stores({{.*}}) grid [1, 1, 1] block [32, 1, 1] shared 0 dependent :
  // CHECK: kernel.index_copy
  // CHECK: kernel.invoke @kernels::@attends({{.*}}) grid [1, 1, 1] block [32, 1, 1] shared 0 dependent :
  kernel.graph @updated(%x: tensor<64xf16>, %cache: tensor<8x64xf16>, %at: tensor<1xi64>)
      -> tensor<64xf16> attributes {form = #kernel.form<thread>} {
    %a = kernel.invoke @kernels::@first(%x) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64xf16>) -> tensor<64xf16>
    %b = kernel.invoke @kernels::@stores(%a, %at) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64xf16>, tensor<1xi64>) -> tensor<1x64xf16>
    %c = kernel.index_copy %cache, %at, %b dim 0
         : (tensor<8x64xf16>, tensor<1xi64>, tensor<1x64xf16>) -> tensor<8x64xf16>
    %d = kernel.invoke @kernels::@attends(%c) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<8x64xf16>) -> tensor<64xf16>
    kernel.return %d : tensor<64xf16>
  }

  // A remaining join is where its parts are written: no kernel comes between them.
  // CHECK-LABEL: kernel.graph @joined
  // CHECK: kernel.invoke @kernels::@first({{.*}}) grid [1, 1, 1] block [32, 1, 1] shared 0 :
  // CHECK: kernel.invoke @kernels::@middle({{.*}}) grid [1, 1, 1] block [32, 1, 1] shared 0 dependent :
  // CHECK: kernel.concat
  // CHECK: kernel.invoke @kernels::@whole({{.*}}) grid [1, 1, 1] block [32, 1, 1] shared 0 dependent :
  kernel.graph @joined(%x: tensor<64xf16>) -> tensor<128xf16> attributes {form = #kernel.form<thread>} {
    %a = kernel.invoke @kernels::@first(%x) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64xf16>) -> tensor<64xf16, #kernel.strides<[1], align = 16>>
    %b = kernel.invoke @kernels::@middle(%x) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64xf16>) -> tensor<64xf16, #kernel.strides<[1], align = 16>>
    %c = kernel.concat %a, %b dim 0
         : (tensor<64xf16, #kernel.strides<[1], align = 16>>, tensor<64xf16, #kernel.strides<[1], align = 16>>) -> tensor<128xf16>
    %d = kernel.invoke @kernels::@whole(%c) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<128xf16>) -> tensor<128xf16>
    kernel.return %d : tensor<128xf16>
  }

  kernel.graph @stream(%x: tensor<64x64xf16>, %w: tensor<64x64xf16>) -> tensor<64x64xf16> attributes {form = #kernel.form<thread>} {
    %n = kernel.invoke @kernels::@both(%x, %w) grid [1, 1, 1] block [32, 1, 1] shared 8192
         : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf16>
    %b = kernel.invoke @kernels::@streams(%n, %w) grid [1, 1, 1] block [32, 1, 1] shared 32768
         : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf16>
    %c = kernel.invoke @kernels::@both(%w, %b) grid [1, 1, 1] block [32, 1, 1] shared 8192
         : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf16>
    kernel.return %c : tensor<64x64xf16>
  }

  kernel.graph @next(%x: tensor<64x64xf16>, %w: tensor<64x64xf16>) -> tensor<64x64xf16> attributes {form = #kernel.form<thread>} {
    %a = kernel.invoke @kernels::@early(%x) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64x64xf16>) -> tensor<64x64xf16>
    %b = kernel.invoke @kernels::@streams(%a, %w) grid [1, 1, 1] block [32, 1, 1] shared 32768
         : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf16>
    kernel.return %b : tensor<64x64xf16>
  }

  kernel.graph @ended(%x: tensor<64xf16>) -> tensor<64xf16> attributes {form = #kernel.form<thread>} {
    %a = kernel.invoke @kernels::@first(%x) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64xf16>) -> tensor<64xf16>
    %b = kernel.invoke @kernels::@middle(%a) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64xf16>) -> tensor<64xf16>
    %c = kernel.invoke @kernels::@third(%a, %b) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64xf16>, tensor<64xf16>) -> tensor<64xf16>
    %d = kernel.invoke @kernels::@beside(%b) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64xf16>) -> tensor<64xf16>
    %e = kernel.invoke @kernels::@after_both(%c, %d) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64xf16>, tensor<64xf16>) -> tensor<64xf16>
    kernel.return %e : tensor<64xf16>
  }

  // CHECK-LABEL: kernel.graph @single
  // CHECK: kernel.invoke @kernels::@alone({{.*}}) grid [1, 1, 1] block [32, 1, 1] shared 0 :
  kernel.graph @single(%x: tensor<64xf16>) -> tensor<64xf16> attributes {form = #kernel.form<thread>} {
    %a = kernel.invoke @kernels::@alone(%x) grid [1, 1, 1] block [32, 1, 1] shared 0
         : (tensor<64xf16>) -> tensor<64xf16>
    kernel.return %a : tensor<64xf16>
  }
}
