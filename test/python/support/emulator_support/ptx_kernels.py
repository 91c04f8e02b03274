# ruff: noqa: E501 - PTX keeps its lines
"""Hand-written PTX kernels. A line that ends in `//@name` can be left out by name, for tests that break
one thing at a time; `//@name: text` replaces the line by the text instead."""

from __future__ import annotations

import re

_MARK = re.compile(r"//@([\w-]+)(?::(.*))?$")
HEADER = ".version 8.0\n.target sm_90a\n.address_size 64\n"


def marks(text: str) -> list[str]:
    """Names of the lines that can be broken."""
    found = (_MARK.search(line) for line in text.splitlines())
    return sorted({m.group(1) for m in found if m})


def broken(text: str, name: str) -> str:
    """The text without the lines marked `name`."""
    lines: list[str] = []
    for line in text.splitlines():
        mark = _MARK.search(line)
        if mark and mark.group(1) == name:
            line = mark.group(2) or ""
        lines.append(line)
    return "\n".join(lines) + "\n"


SOFTMAX = f"""{HEADER}
// Y[row, :] = softmax(X[row, :]) in f16, one block of 128 threads a row, any number of columns.
.visible .entry softmax(.param .u64 pX, .param .u64 pY, .param .u32 pN)
{{
    .reg .pred %p<8>; .reg .b16 %h<4>; .reg .b32 %r<32>; .reg .b64 %rd<16>; .reg .f32 %f<32>;
    .shared .align 4 .b8 partial[16];
    ld.param.u64 %rd1, [pX]; ld.param.u64 %rd2, [pY]; ld.param.u32 %r1, [pN];
    mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; and.b32 %r4, %r2, 31; shr.u32 %r5, %r2, 5;
    mul.wide.u32 %rd3, %r3, %r1; shl.b64 %rd3, %rd3, 1; add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;
    mov.u32 %r6, partial; shl.b32 %r7, %r5, 2; add.u32 %r8, %r6, %r7;
    mov.f32 %f1, 0fFF800000;
    mov.u32 %r9, %r2;
MAX:
    setp.lt.u32 %p1, %r9, %r1;          //@mask-max: setp.lt.u32 %p1, %r9, 0xffffff;
    mul.wide.u32 %rd4, %r9, 2; add.u64 %rd5, %rd1, %rd4;
    @!%p1 bra MAXNEXT;
    ld.global.b16 %h1, [%rd5]; cvt.f32.f16 %f2, %h1; max.f32 %f1, %f1, %f2;
MAXNEXT:
    add.u32 %r9, %r9, 128; setp.lt.u32 %p2, %r9, %r1; @%p2 bra MAX;
    shfl.sync.bfly.b32 %f3, %f1, 16, 31, -1; max.f32 %f1, %f1, %f3;
    shfl.sync.bfly.b32 %f3, %f1, 8, 31, -1; max.f32 %f1, %f1, %f3;
    shfl.sync.bfly.b32 %f3, %f1, 4, 31, -1; max.f32 %f1, %f1, %f3;
    shfl.sync.bfly.b32 %f3, %f1, 2, 31, -1; max.f32 %f1, %f1, %f3;
    shfl.sync.bfly.b32 %f3, %f1, 1, 31, -1; max.f32 %f1, %f1, %f3;
    setp.eq.u32 %p3, %r4, 0; @%p3 st.shared.f32 [%r8], %f1;
    bar.sync 0;                          //@barrier-after-max
    ld.shared.f32 %f4, [%r6]; ld.shared.f32 %f5, [%r6+4]; max.f32 %f4, %f4, %f5;
    ld.shared.f32 %f5, [%r6+8]; max.f32 %f4, %f4, %f5; ld.shared.f32 %f5, [%r6+12]; max.f32 %f4, %f4, %f5;
    bar.sync 0;                          //@barrier-before-reuse
    mov.f32 %f6, 0f00000000; mov.u32 %r9, %r2;
SUM:
    setp.lt.u32 %p1, %r9, %r1;          //@mask-sum: setp.lt.u32 %p1, %r9, 0xffffff;
    mul.wide.u32 %rd4, %r9, 2; add.u64 %rd5, %rd1, %rd4;
    @!%p1 bra SUMNEXT;
    ld.global.b16 %h1, [%rd5]; cvt.f32.f16 %f2, %h1; sub.f32 %f2, %f2, %f4;
    mul.f32 %f2, %f2, 0f3FB8AA3B; ex2.approx.ftz.f32 %f2, %f2; add.f32 %f6, %f6, %f2;
SUMNEXT:
    add.u32 %r9, %r9, 128; setp.lt.u32 %p2, %r9, %r1; @%p2 bra SUM;
    shfl.sync.bfly.b32 %f3, %f6, 16, 31, -1; add.f32 %f6, %f6, %f3;
    shfl.sync.bfly.b32 %f3, %f6, 8, 31, -1; add.f32 %f6, %f6, %f3;
    shfl.sync.bfly.b32 %f3, %f6, 4, 31, -1; add.f32 %f6, %f6, %f3;
    shfl.sync.bfly.b32 %f3, %f6, 2, 31, -1; add.f32 %f6, %f6, %f3;
    shfl.sync.bfly.b32 %f3, %f6, 1, 31, -1; add.f32 %f6, %f6, %f3;
    @%p3 st.shared.f32 [%r8], %f6;
    bar.sync 0;                          //@barrier-after-sum
    ld.shared.f32 %f7, [%r6]; ld.shared.f32 %f5, [%r6+4]; add.f32 %f7, %f7, %f5;
    ld.shared.f32 %f5, [%r6+8]; add.f32 %f7, %f7, %f5; ld.shared.f32 %f5, [%r6+12]; add.f32 %f7, %f7, %f5;
    rcp.approx.ftz.f32 %f7, %f7; mov.u32 %r9, %r2;
OUT:
    setp.lt.u32 %p1, %r9, %r1;          //@mask-store: setp.lt.u32 %p1, %r9, 0xffffff;
    @!%p1 bra OUTNEXT;
    mul.wide.u32 %rd4, %r9, 2; add.u64 %rd5, %rd1, %rd4; add.u64 %rd6, %rd2, %rd4;
    ld.global.b16 %h1, [%rd5]; cvt.f32.f16 %f2, %h1; sub.f32 %f2, %f2, %f4;
    mul.f32 %f2, %f2, 0f3FB8AA3B; ex2.approx.ftz.f32 %f2, %f2; mul.f32 %f2, %f2, %f7;
    cvt.rn.f16.f32 %h2, %f2; st.global.b16 [%rd6], %h2;
OUTNEXT:
    add.u32 %r9, %r9, 128; setp.lt.u32 %p2, %r9, %r1; @%p2 bra OUT;
    ret;
}}
"""

TMA_RING = f"""{HEADER}
// y[n] = sum over k of x[k, n] for x f16 [K, 64]: a producer warp fills a ring of two stages of 32 rows by
// TMA (128-byte swizzle), two consumer warps add up columns, a bulk copy writes y (f32).
.visible .entry ring(.param .align 64 .b8 map[128], .param .u64 pY, .param .u32 pK)
.maxntid 96, 1, 1
{{
    .reg .pred %p<8>; .reg .b16 %h<4>; .reg .b32 %r<48>; .reg .b64 %rd<8>; .reg .f32 %f<8>;
    .shared .align 1024 .b8 tiles[8192];
    .shared .align 16 .b8 result[256];
    .shared .align 8 .b64 full[2];
    .shared .align 8 .b64 empty[2];
    mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1;
    ld.param.u64 %rd2, [pY]; ld.param.u32 %r1, [pK];
    mov.u32 %r2, %tid.x; shr.u32 %r3, %r2, 5;
    mov.u32 %r4, tiles; mov.u32 %r5, full; mov.u32 %r6, empty; mov.u32 %r7, result;
    add.u32 %r8, %r1, 31; shr.u32 %r8, %r8, 5;           // stages to go through
    setp.ne.u32 %p1, %r2, 0; @%p1 bra INITDONE;
    mbarrier.init.shared::cta.b64 [%r5], 1; mbarrier.init.shared::cta.b64 [%r5+8], 1;
    mbarrier.init.shared::cta.b64 [%r6], 2; mbarrier.init.shared::cta.b64 [%r6+8], 2;
    fence.mbarrier_init.release.cluster;  //@fence-init
INITDONE:
    bar.sync 0;                           //@barrier-after-init
    mov.u32 %r10, 0; mov.u32 %r11, 0; mov.u32 %r12, 0;   // iteration, stage, phase parity
    setp.ne.u32 %p2, %r3, 2; @%p2 bra CONSUMER;
    and.b32 %r13, %r2, 31; setp.ne.u32 %p3, %r13, 0; @%p3 bra DONE;
PRODUCE:
    shl.b32 %r14, %r11, 3; add.u32 %r15, %r6, %r14; add.u32 %r16, %r5, %r14;
    xor.b32 %r17, %r12, 1;
WAITEMPTY:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r15], %r17;   //@wait-empty: setp.eq.u32 %p4, 0, 0;
    @!%p4 bra WAITEMPTY;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r16], 4096;
    shl.b32 %r18, %r11, 12; add.u32 %r18, %r18, %r4; shl.b32 %r19, %r10, 5; mov.u32 %r20, 0;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r18], [%rd1, {{%r20, %r19}}], [%r16];
    add.u32 %r10, %r10, 1; xor.b32 %r11, %r11, 1; setp.eq.u32 %p5, %r11, 0; @%p5 xor.b32 %r12, %r12, 1;
    setp.lt.u32 %p6, %r10, %r8; @%p6 bra PRODUCE;
    bra.uni DONE;
CONSUMER:
    mov.f32 %f1, 0f00000000;
    shr.u32 %r21, %r2, 3; and.b32 %r22, %r2, 7; shl.b32 %r22, %r22, 1;   // 16-byte chunk, byte in it
CONSUME:
    shl.b32 %r14, %r11, 3; add.u32 %r16, %r5, %r14; add.u32 %r15, %r6, %r14;
WAITFULL:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r16], %r12;  //@wait-full: setp.eq.u32 %p4, 0, 0;
    @!%p4 bra WAITFULL;
    shl.b32 %r18, %r11, 12; add.u32 %r18, %r18, %r4; mov.u32 %r23, 0;
ROWS:
    shl.b32 %r24, %r23, 7; add.u32 %r24, %r24, %r18; and.b32 %r25, %r23, 7;
    xor.b32 %r26, %r21, %r25;             //@swizzle: mov.b32 %r26, %r21;
    shl.b32 %r26, %r26, 4; add.u32 %r24, %r24, %r26; add.u32 %r24, %r24, %r22;
    ld.shared.b16 %h1, [%r24]; cvt.f32.f16 %f2, %h1; add.f32 %f1, %f1, %f2;
    add.u32 %r23, %r23, 1; setp.lt.u32 %p5, %r23, 32; @%p5 bra ROWS;
    bar.warp.sync -1;
    and.b32 %r27, %r2, 31; setp.eq.u32 %p7, %r27, 0;
    @%p7 mbarrier.arrive.shared::cta.b64 _, [%r15];              //@arrive-empty
    add.u32 %r10, %r10, 1; xor.b32 %r11, %r11, 1; setp.eq.u32 %p5, %r11, 0; @%p5 xor.b32 %r12, %r12, 1;
    setp.lt.u32 %p6, %r10, %r8; @%p6 bra CONSUME;
    shl.b32 %r28, %r2, 2; add.u32 %r28, %r28, %r7; st.shared.f32 [%r28], %f1;
    fence.proxy.async.shared::cta;        //@fence-proxy
    bar.sync 1, 64;                       //@barrier-before-store
    setp.ne.u32 %p5, %r2, 0; @%p5 bra DONE;
    cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r7], 256;
    cp.async.bulk.commit_group;           //@commit
    cp.async.bulk.wait_group.read 0;      //@wait-store
DONE:
    ret;
}}
"""


def wgmma_tile(*, kind: str = "f16", from_registers: bool = False) -> str:
    """D[64, 64] (f32) = A[64, K] @ B[K, 64] with K a multiple of 64: A K-major and B N-major in shared
    memory with 128-byte swizzle, by TMA; A optionally through ldmatrix and registers. One warpgroup."""
    d = ", ".join(f"%f{i}" for i in range(32))
    zero = " ".join(f"mov.f32 %f{i}, 0f00000000;" for i in range(32))
    steps: list[str] = []
    if from_registers:
        # Row and chunk of this lane for ldmatrix: rows 16 * warp + lane % 16, chunk 2 * kk + lane / 16.
        steps.append(
            "and.b32 %r20, %r2, 31; and.b32 %r21, %r20, 15; shr.u32 %r22, %r2, 5; shl.b32 %r22, %r22, 4;"
        )
        steps.append(
            "add.u32 %r21, %r21, %r22; shr.u32 %r23, %r20, 4; and.b32 %r24, %r21, 7; shl.b32 %r25, %r21, 7;"
        )
        for kk in range(4):
            steps.append(
                f"add.u32 %r26, %r23, {2 * kk}; xor.b32 %r26, %r26, %r24; shl.b32 %r26, %r26, 4;"
            )
            steps.append("add.u32 %r26, %r26, %r25; add.u32 %r26, %r26, %r4;")
            regs = ", ".join(f"%r{40 + 4 * kk + i}" for i in range(4))
            steps.append(f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{regs}}}, [%r26];")
    steps.append("wgmma.fence.sync.aligned;  //@wgmma-fence")
    for kk in range(4):
        steps.append(f"add.u64 %rd7, %rd5, {kk * 2}; add.u64 %rd8, %rd6, {kk * 128};")
        if from_registers:
            regs = ", ".join(f"%r{40 + 4 * kk + i}" for i in range(4))
            steps.append(
                f"wgmma.mma_async.sync.aligned.m64n64k16.f32.{kind}.{kind} {{{d}}}, {{{regs}}}, %rd8, 1, 1, 1, 1;"
            )
        else:
            steps.append(
                f"wgmma.mma_async.sync.aligned.m64n64k16.f32.{kind}.{kind} {{{d}}}, %rd7, %rd8, 1, 1, 1, 0, 1;"
            )
    body = "\n    ".join(steps)
    stores: list[str] = []
    for j in range(8):
        for half in range(2):
            f = 4 * j + 2 * half
            stores.append(
                f"st.global.v2.f32 [%rd9+{8 * half * 256 + 32 * j}], {{%f{f}, %f{f + 1}}};"
            )
    store = "\n    ".join(stores)
    return f"""{HEADER}
.visible .entry tile(.param .align 64 .b8 mapA[128], .param .align 64 .b8 mapB[128], .param .u64 pD, .param .u32 pK)
.maxntid 128, 1, 1
{{
    .reg .pred %p<8>; .reg .b32 %r<64>; .reg .b64 %rd<12>; .reg .f32 %f<32>;
    .shared .align 1024 .b8 tiles[16384];
    .shared .align 8 .b64 full;
    mov.b64 %rd1, mapA; cvta.param.u64 %rd1, %rd1; mov.b64 %rd2, mapB; cvta.param.u64 %rd2, %rd2;
    ld.param.u64 %rd3, [pD]; ld.param.u32 %r1, [pK];
    mov.u32 %r2, %tid.x; mov.u32 %r4, tiles; add.u32 %r5, %r4, 8192; mov.u32 %r6, full;
    setp.eq.u32 %p1, %r2, 0;
    @%p1 mbarrier.init.shared::cta.b64 [%r6], 1;
    @%p1 fence.mbarrier_init.release.cluster;
    bar.sync 0;                           //@barrier-after-init
    // Descriptors: start / 16, leading offset / 16 (bits 16), stride 1024 / 16 (bits 32), 128-byte swizzle.
    shr.u32 %r7, %r4, 4; cvt.u64.u32 %rd5, %r7; or.b64 %rd5, %rd5, 0x4000004000010000;
    shr.u32 %r8, %r5, 4; cvt.u64.u32 %rd6, %r8; or.b64 %rd6, %rd6, 0x4000004000010000;
    {zero}
    mov.u32 %r10, 0; mov.u32 %r11, 0;
LOOP:
    @!%p1 bra WAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r6], 16384;
    mov.u32 %r12, 0;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd1, {{%r10, %r12}}], [%r6];
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%rd2, {{%r12, %r10}}], [%r6];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r6], %r11;    //@wait-full: setp.eq.u32 %p2, 0, 0;
    @!%p2 bra WAIT;
    xor.b32 %r11, %r11, 1;
    {body}
    wgmma.commit_group.sync.aligned;      //@wgmma-commit
    wgmma.wait_group.sync.aligned 0;      //@wgmma-wait
    bar.sync 0;                           //@barrier-before-refill
    add.u32 %r10, %r10, 64; setp.lt.u32 %p3, %r10, %r1; @%p3 bra LOOP;
    shr.u32 %r13, %r2, 5; shl.b32 %r13, %r13, 4; and.b32 %r14, %r2, 31; shr.u32 %r15, %r14, 2;
    add.u32 %r13, %r13, %r15; shl.b32 %r13, %r13, 8; and.b32 %r16, %r14, 3; shl.b32 %r16, %r16, 3;
    add.u32 %r13, %r13, %r16; cvt.u64.u32 %rd9, %r13; add.u64 %rd9, %rd9, %rd3;
    {store}
    ret;
}}
"""


SPLIT_K = f"""{HEADER}
// y[n] = sum over k of x[k] * W[k, n] in f32, N = 32 columns a cluster of four blocks: block r adds up the
// r-th quarter of K and pushes its partial sums into block 0, which waits on an mbarrier and combines.
.visible .entry splitk(.param .u64 pX, .param .u64 pW, .param .u64 pY, .param .u32 pK, .param .u32 pN)
.maxntid 64, 1, 1
{{
    .reg .pred %p<8>; .reg .b32 %r<48>; .reg .b64 %rd<12>; .reg .f32 %f<12>;
    .shared .align 16 .b8 partial[1024];
    .shared .align 8 .b64 full;
    ld.param.u64 %rd1, [pX]; ld.param.u64 %rd2, [pW]; ld.param.u64 %rd3, [pY];
    ld.param.u32 %r1, [pK]; ld.param.u32 %r2, [pN];
    mov.u32 %r3, %tid.x; mov.u32 %r4, %cluster_ctarank; mov.u32 %r5, %clusterid.x;
    and.b32 %r6, %r3, 31; shr.u32 %r7, %r3, 5;
    mov.u32 %r8, partial; mov.u32 %r9, full;
    setp.eq.u32 %p1, %r3, 0; setp.eq.u32 %p2, %r4, 0; and.pred %p3, %p1, %p2;
    @%p3 mbarrier.init.shared::cta.b64 [%r9], 8;
    @%p3 fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.release.aligned;   //@cluster-arrive
    barrier.cluster.wait.acquire.aligned;     //@cluster-wait
    shr.u32 %r10, %r1, 2; mul.lo.u32 %r11, %r4, %r10; add.u32 %r12, %r11, %r10;  // k from, to
    add.u32 %r11, %r11, %r7;                                                  // warps take turns
    shl.b32 %r13, %r5, 5; add.u32 %r13, %r13, %r6;                            // column
    mov.f32 %f1, 0f00000000;
LOOP:
    setp.ge.u32 %p4, %r11, %r12; @%p4 bra SUMMED;
    mul.wide.u32 %rd4, %r11, 4; add.u64 %rd4, %rd4, %rd1; ld.global.f32 %f2, [%rd4];
    mad.lo.u32 %r14, %r11, %r2, %r13; mul.wide.u32 %rd5, %r14, 4; add.u64 %rd5, %rd5, %rd2;
    ld.global.f32 %f3, [%rd5]; fma.rn.f32 %f1, %f2, %f3, %f1;
    add.u32 %r11, %r11, 2; bra.uni LOOP;
SUMMED:
    // Slot (rank, warp, lane) in block 0.
    shl.b32 %r15, %r4, 1; add.u32 %r15, %r15, %r7; shl.b32 %r15, %r15, 5; add.u32 %r15, %r15, %r6;
    shl.b32 %r15, %r15, 2; add.u32 %r15, %r15, %r8;
    mapa.shared::cluster.u32 %r16, %r15, 0; mapa.shared::cluster.u32 %r17, %r9, 0;
    st.shared::cluster.f32 [%r16], %f1;
    bar.warp.sync -1;
    setp.eq.u32 %p5, %r6, 0;
    @%p5 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r17];   //@remote-arrive
    setp.eq.u32 %p6, %r7, 0; and.pred %p6, %p6, %p2; @!%p6 bra DONE;
WAIT:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p7, [%r9], 0;   //@wait: setp.eq.u32 %p7, 0, 0;
    @!%p7 bra WAIT;
    mov.f32 %f4, 0f00000000; mov.u32 %r18, 0; shl.b32 %r19, %r6, 2; add.u32 %r19, %r19, %r8;
COMBINE:
    ld.shared.f32 %f5, [%r19]; add.f32 %f4, %f4, %f5; add.u32 %r19, %r19, 128;
    add.u32 %r18, %r18, 1; setp.lt.u32 %p7, %r18, 8; @%p7 bra COMBINE;
    mul.wide.u32 %rd6, %r13, 4; add.u64 %rd6, %rd6, %rd3; st.global.f32 [%rd6], %f4;
DONE:
    ret;
}}
"""
