// RUN: mirage-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{invalid layout: expected 5 lane vectors, got 2}}
func.func private @lanes() attributes {a = #thread.layout<reg = [], lane = [[0, 1], [0, 2]]>}

// -----

// expected-error @+1 {{invalid layout: vector [0, 1] occurs twice}}
func.func private @twice() attributes {a = #thread.layout<reg = [[0, 1]], lane = [[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]]>}

// -----

// expected-error @+1 {{invalid layout: expected vectors that are one bit of one dimension, got [1, 1]}}
func.func private @mixed() attributes {a = #thread.layout<reg = [[1, 1]], lane = [[0, 1], [0, 2], [2, 0], [4, 0], [8, 0]]>}

// -----

// expected-error @+1 {{invalid layout: expected vectors that are one bit of one dimension, got [0, 0]}}
func.func private @zero_register() attributes {a = #thread.layout<reg = [[0, 0]], lane = [[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]]>}

// -----

// expected-error @+1 {{invalid layout: the vectors do not reach every element of their 8x6 tile}}
func.func private @gap() attributes {a = #thread.layout<reg = [], lane = [[0, 1], [0, 4], [1, 0], [2, 0], [4, 0]]>}

// -----

// expected-error @+1 {{invalid layout: expected positive repeat counts, got [0, 1]}}
func.func private @repeat() attributes {a = #thread.layout<reg = [], lane = [[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]], repeat = [0, 1]>}

// -----

// expected-error @+1 {{expected 'reg', 'lane', 'warp' or 'repeat', got 'regs'}}
func.func private @field() attributes {a = #thread.layout<regs = []>}

// -----

// expected-error @+1 {{expected a layout of 16x8 elements, got one of 8x4}}
func.func private @shape(!thread.fragment<16x8xf32, #thread.layout<reg = [], lane = [[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]]>>)

// -----

// expected-error @+1 {{expected elements of type f16, bf16, f32, i32 or i64, got 'f64'}}
func.func private @element(!thread.fragment<8x4xf64, #thread.layout<reg = [], lane = [[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]]>>)

// -----

// expected-error @+1 {{expected a zero warp vector in the layout of a partial fragment}}
func.func private @partial(!thread.fragment<8x4xf32, #thread.layout<reg = [], lane = [[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]]>, partial>)

// -----

// expected-error @+1 {{expected rows of a multiple of 128 bytes, got 96}}
func.func private @panels(!thread.shared<16x48xf16, swizzle = 128>)

// -----

// expected-error @+1 {{expected a swizzle of 0, 32, 64 or 128 bytes, got 48}}
func.func private @swizzle(!thread.shared<16x48xf16, swizzle = 48>)

// -----

// expected-error @+1 {{expected a pad of at least 0, and 0 with a swizzle, got 8}}
func.func private @pad(!thread.shared<16x64xf16, swizzle = 128, pad = 8>)

// -----

// expected-error @+1 {{unknown field 'stride'}}
func.func private @unknown(!thread.shared<16x64xf16, stride = 8>)

// -----

// expected-error @+1 {{expected a shared tile of 2 dimensions or a ring of 3, got 1}}
func.func private @rank(!thread.shared<16xf16>)

// -----

// expected-error @+1 {{expected rows of at most 128 bytes, got 256}}
func.func private @box(!thread.tensormap<64x128xf16, swizzle = 128>)

// -----

// expected-error @+1 {{expected box extents from 1 to 256, got 512}}
func.func private @long_box(!thread.tensormap<512x64xf16, swizzle = 128>)

// -----

// expected-error @+1 {{expected at least 1 mbarrier, got 0}}
func.func private @no_barrier(!thread.mbarrier<0>)
