// RUN: mirage-opt %s --mirage-plan-shared-memory=chip=sm_80 --verify-diagnostics

#rows = #thread.layout<reg = [[0, 1]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>

gpu.module @kernels {
  // expected-error @below {{expected at most 166912 bytes of shared memory on sm_80, got 262144; use smaller tiles or fewer stages}}
  gpu.func @large() kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    // expected-note @below {{262144 bytes for '!thread.shared<1024x128xf16>'}}
    %a = thread.shared_alloc 0 : !thread.shared<1024x128xf16>
    %f = thread.load_shared %a : !thread.shared<1024x128xf16> -> !thread.fragment<8x8xf16, #rows>
    thread.store_shared %f, %a : !thread.fragment<8x8xf16, #rows>, !thread.shared<1024x128xf16>
    gpu.return
  }
}
