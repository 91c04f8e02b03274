// A left factor in registers that all steps of a loop read needs another product beside it.
// RUN: mirage-opt %s --mirage-check-chip -split-input-file -verify-diagnostics

#acc = #thread.layout<reg = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]>
func.func @alone(%a: !thread.fragment<64x64xf16, #acc>, %s: !thread.shared<64x64xf16, swizzle = 128>,
                 %d: !thread.fragment<64x64xf32, #acc>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    // expected-error @+1 {{'thread.wgmma' op expected a left factor in registers that steps of the loop make, or a product of such a factor issued beside this one}}
    %x = thread.wgmma %a, %s, %d {from_zero} : !thread.fragment<64x64xf16, #acc>, !thread.shared<64x64xf16, swizzle = 128>, !thread.fragment<64x64xf32, #acc>
    thread.wgmma_commit
    %y = thread.wgmma_wait 0 (%x) : !thread.fragment<64x64xf32, #acc>
    %p = thread.cast %y : !thread.fragment<64x64xf32, #acc> -> !thread.fragment<64x64xf16, #acc>
    %z = thread.wgmma %p, %s, %d : !thread.fragment<64x64xf16, #acc>, !thread.shared<64x64xf16, swizzle = 128>, !thread.fragment<64x64xf32, #acc>
    thread.wgmma_commit
    thread.wgmma_wait 0
  }
  return
}

// -----

// Both are in use at once; factors in shared memory are no registers.
#acc = #thread.layout<reg = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]>
func.func @beside(%a: !thread.fragment<64x64xf16, #acc>, %s: !thread.shared<64x64xf16, swizzle = 128>,
                  %d: !thread.fragment<64x64xf32, #acc>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %last = scf.for %i = %c0 to %n step %c1 iter_args(%before = %d) -> !thread.fragment<64x64xf32, #acc> {
    %p = thread.cast %before : !thread.fragment<64x64xf32, #acc> -> !thread.fragment<64x64xf16, #acc>
    %x = thread.wgmma %a, %s, %d {from_zero} : !thread.fragment<64x64xf16, #acc>, !thread.shared<64x64xf16, swizzle = 128>, !thread.fragment<64x64xf32, #acc>
    thread.wgmma_commit
    %z = thread.wgmma %p, %s, %d : !thread.fragment<64x64xf16, #acc>, !thread.shared<64x64xf16, swizzle = 128>, !thread.fragment<64x64xf32, #acc>
    thread.wgmma_commit
    %y = thread.wgmma_wait 0 (%x) : !thread.fragment<64x64xf32, #acc>
    %w = thread.wgmma %s, %s, %d : !thread.shared<64x64xf16, swizzle = 128>, !thread.shared<64x64xf16, swizzle = 128>, !thread.fragment<64x64xf32, #acc>
    thread.wgmma_commit
    thread.wgmma_wait 0
    scf.yield %y : !thread.fragment<64x64xf32, #acc>
  }
  return
}
