// RUN: mirage-opt %s --mirage-finish-binaries | FileCheck %s

// The attributes for the serialization are removed, so that equal programs give equal text, and the graph
// states its new form.
// CHECK: kernel.graph @g
// CHECK-SAME: form = #kernel.form<binary>
// CHECK: gpu.binary @g_kernels [#gpu.object<#nvvm.target<chip = "sm_80">, assembly = "// PTX">]
// CHECK-NOT: LLVMIRToISATimeInMs
module attributes {gpu.container_module} {
  kernel.graph @g(%x: tensor<4xf32>) -> tensor<4xf32> attributes {form = #kernel.form<thread>} {
    %y = kernel.invoke @g_kernels::@g_0(%x) grid [1, 1, 1] block [32, 1, 1] shared 0 : (tensor<4xf32>) -> tensor<4xf32>
    kernel.return %y : tensor<4xf32>
  }
  gpu.binary @g_kernels [#gpu.object<#nvvm.target<chip = "sm_80">, properties = {LLVMIRToISATimeInMs = 12 : i64, O = 3 : i32}, assembly = "// PTX">]
}
