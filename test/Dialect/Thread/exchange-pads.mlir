// RUN: mirage-opt %s --mirage-plan-shared-memory | FileCheck %s

// The padding between rows of a tile through which warps exchange values.

#sums = #thread.layout<reg = [[1, 0], [0, 8]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]], warp = [[0, 16], [0, 32]]>
#rows = #thread.layout<reg = [[0, 1], [0, 2]], lane = [[0, 4], [0, 8], [0, 16], [0, 32], [1, 0]], warp = [[2, 0], [4, 0]]>
#columns = #thread.layout<reg = [[1, 0], [2, 0], [4, 0], [0, 16], [0, 32]], lane = [[8, 0], [16, 0], [32, 0], [0, 1], [0, 2]], warp = [[0, 4], [0, 8]]>
#lines = #thread.layout<reg = [[0, 1], [0, 2], [0, 4], [16, 0], [32, 0]], lane = [[0, 8], [0, 16], [0, 32], [1, 0], [2, 0]], warp = [[4, 0], [8, 0]]>

gpu.module @kernels {
  // Sums of a product whose rows are the narrow side: the lanes of a warp write to all banks with
  // eight elements between rows, which are read in vectors (8 x 72 x 4 bytes).
  // CHECK: gpu.func @sums{{.*}}thread.shared_bytes = 2304
  gpu.func @sums(%x: !thread.fragment<8x64xf32, #sums>) kernel {
    %y = thread.convert_layout %x : !thread.fragment<8x64xf32, #sums> -> !thread.fragment<8x64xf32, #rows>
    gpu.return
  }
  // Lanes that are eight rows apart would write to few banks: rows have an odd number of words
  // (64 x 66 x 2 bytes).
  // CHECK: gpu.func @columns{{.*}}thread.shared_bytes = 8448
  gpu.func @columns(%x: !thread.fragment<64x64xf16, #columns>) kernel {
    %y = thread.convert_layout %x : !thread.fragment<64x64xf16, #columns> -> !thread.fragment<64x64xf16, #lines>
    gpu.return
  }
}
