# ruff: noqa: E501 - PTX keeps its lines
"""Hand-written PTX: a 64x64 block matmul with cp.async, ldmatrix and mma.sync, double buffered.

C[M, N] = A[M, K] @ B[K, N], f16 in, f32 accumulated, f16 out, row major. One block of four warps per
64x64 tile of C, each warp a 32x32 quarter. Rows of A and columns of B beyond M, N and K are filled with
zeros by cp.async's source size; stores are masked. K and N are multiples of 8.

Options break single things for the tests of the checks: which barrier, wait, mask or swizzle is left out.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Broken:
    """What to leave out; by default nothing."""

    wait: bool = False
    barrier_after_wait: bool = False
    barrier_before_refill: bool = False
    mask_rows: bool = False
    mask_columns: bool = False
    mask_depth: bool = False
    swizzle_store: bool = False
    swizzle_load: bool = False


def matmul(broken: Broken = Broken(), *, depth: int = 32) -> str:
    """PTX of kernel `matmul(A, B, C, M, N, K)`; `depth` is the K extent of a stage (32)."""
    assert depth == 32
    # Shared layout: A stage 64 x 32 halves (64-byte rows), B stage 32 x 64 halves (128-byte rows).
    a_bytes, b_bytes = 64 * 32 * 2, 32 * 64 * 2
    stage = a_bytes + b_bytes
    out: list[str] = []
    emit = out.append
    emit(
        f"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry matmul(
    .param .u64 .ptr .global .align 16 pA, .param .u64 .ptr .global .align 16 pB,
    .param .u64 .ptr .global .align 16 pC, .param .u32 pM, .param .u32 pN, .param .u32 pK)
.maxntid 128, 1, 1
{{
    .reg .pred %p<40>;
    .reg .b16 %h<4>;
    .reg .b32 %r<200>;
    .reg .b64 %rd<40>;
    .reg .f32 %f<40>;
    .shared .align 128 .b8 tiles[{2 * stage}];
    ld.param.u64 %rd1, [pA];
    ld.param.u64 %rd2, [pB];
    ld.param.u64 %rd3, [pC];
    cvta.to.global.u64 %rd1, %rd1;
    cvta.to.global.u64 %rd2, %rd2;
    cvta.to.global.u64 %rd3, %rd3;
    ld.param.u32 %r1, [pM];
    ld.param.u32 %r2, [pN];
    ld.param.u32 %r3, [pK];
    mov.u32 %r4, %tid.x;
    mov.u32 %r5, %ctaid.x;
    mov.u32 %r6, %ctaid.y;
    shl.b32 %r7, %r5, 6;            // first column of the tile
    shl.b32 %r8, %r6, 6;            // first row of the tile
    mov.u32 %r9, tiles;
    // Each thread copies 16 bytes twice for A and twice for B.
    shr.u32 %r10, %r4, 2;           // A: row 0..31 (+32), chunk 0..3
    and.b32 %r11, %r4, 3;
    shr.u32 %r12, %r4, 3;           // B: row 0..15 (+16), chunk 0..7
    and.b32 %r13, %r4, 7;
"""
    )
    # Destination offsets with xor swizzle: A chunk ^ ((row >> 1) & 3), B chunk ^ (row & 7).
    for i in range(2):
        emit(f"    add.u32 %r{20 + i}, %r10, {32 * i};")
        swz = (
            "mov.u32 %r30, 0;"
            if broken.swizzle_store
            else (f"shr.u32 %r30, %r{20 + i}, 1; and.b32 %r30, %r30, 3;")
        )
        emit(f"    {swz} xor.b32 %r30, %r30, %r11; shl.b32 %r30, %r30, 4;")
        emit(f"    shl.b32 %r31, %r{20 + i}, 6; add.u32 %r{22 + i}, %r31, %r30;")
        emit(f"    add.u32 %r{24 + i}, %r12, {16 * i};")
        emit(f"    and.b32 %r30, %r{24 + i}, 7; xor.b32 %r30, %r30, %r13; shl.b32 %r30, %r30, 4;")
        emit(f"    shl.b32 %r31, %r{24 + i}, 7; add.u32 %r{26 + i}, %r31, %r30;")
        emit(f"    add.u32 %r{26 + i}, %r{26 + i}, {a_bytes};")
        # Global rows and masks that do not change over K.
        emit(f"    add.u32 %r{32 + i}, %r8, %r{20 + i};")
        emit(f"    setp.lt.u32 %p{1 + i}, %r{32 + i}, %r1;")
        if broken.mask_rows:
            emit(f"    setp.eq.u32 %p{1 + i}, %r1, %r1;")
    emit("    shl.b32 %r34, %r13, 3; add.u32 %r35, %r7, %r34;  // B column")
    emit("    setp.lt.u32 %p3, %r35, %r2;")
    if broken.mask_columns:
        emit("    setp.eq.u32 %p3, %r2, %r2;")
    for i in range(32):
        emit(f"    mov.f32 %f{i}, 0f00000000;")
    emit("    add.u32 %r40, %r3, 31; shr.u32 %r40, %r40, 5;   // stages")
    emit("    mov.u32 %r41, 0;                                // k of the stage to load")
    emit("    mov.u32 %r42, 0;                                // buffer offset to load into")

    def load(tag: str) -> None:
        for i in range(2):
            emit("    shl.b32 %r50, %r11, 3; add.u32 %r50, %r50, %r41;  // k of the chunk of A")
            emit(f"    setp.lt.and.u32 %p10, %r50, %r3, %p{1 + i};")
            if broken.mask_depth:
                emit(f"    and.pred %p10, %p{1 + i}, %p{1 + i};")
            emit("    selp.u32 %r51, 16, 0, %p10;")
            emit(f"    mad.lo.u32 %r52, %r{32 + i}, %r3, %r50; selp.u32 %r52, %r52, 0, %p10;")
            emit("    mul.wide.u32 %rd10, %r52, 2; add.u64 %rd10, %rd1, %rd10;")
            emit(f"    add.u32 %r53, %r9, %r42; add.u32 %r53, %r53, %r{22 + i};")
            emit("    cp.async.cg.shared.global [%r53], [%rd10], 16, %r51;")
            emit(f"    add.u32 %r54, %r41, %r{24 + i};                  // k of the row of B")
            emit("    setp.lt.and.u32 %p11, %r54, %r3, %p3; selp.u32 %r55, 16, 0, %p11;")
            emit("    mad.lo.u32 %r56, %r54, %r2, %r35; selp.u32 %r56, %r56, 0, %p11;")
            emit("    mul.wide.u32 %rd11, %r56, 2; add.u64 %rd11, %rd2, %rd11;")
            emit(f"    add.u32 %r57, %r9, %r42; add.u32 %r57, %r57, %r{26 + i};")
            emit("    cp.async.cg.shared.global [%r57], [%rd11], 16, %r55;")
        emit("    cp.async.commit_group;")
        emit(f"    add.u32 %r41, %r41, 32; xor.b32 %r42, %r42, {stage};  // {tag}")

    load("prologue")
    emit("    mov.u32 %r43, 0;              // stage counter")
    emit("    mov.u32 %r44, 0;              // buffer offset to compute from")
    emit("    and.b32 %r60, %r4, 31; shr.u32 %r61, %r4, 5;")
    emit("    and.b32 %r62, %r61, 1; shl.b32 %r62, %r62, 5;     // warp row 0 or 32")
    emit("    shr.u32 %r63, %r61, 1; shl.b32 %r63, %r63, 5;     // warp column 0 or 32")
    emit("    and.b32 %r64, %r60, 15; shr.u32 %r65, %r60, 4;    // ldmatrix row, half")
    emit("LOOP:")
    load("next")
    if not broken.wait:
        emit("    cp.async.wait_group 1;")
    if not broken.barrier_after_wait:
        emit("    bar.sync 0;")
    emit("    add.u32 %r66, %r9, %r44;")
    for kk in range(2):
        for mi in range(2):
            emit(f"    add.u32 %r67, %r62, %r64; add.u32 %r67, %r67, {16 * mi};   // row of A")
            emit(f"    add.u32 %r68, %r65, {2 * kk};                              // chunk")
            if not broken.swizzle_load:
                emit("    shr.u32 %r69, %r67, 1; and.b32 %r69, %r69, 3; xor.b32 %r68, %r68, %r69;")
            emit("    shl.b32 %r67, %r67, 6; shl.b32 %r68, %r68, 4;")
            emit("    add.u32 %r67, %r67, %r68; add.u32 %r67, %r67, %r66;")
            regs = ", ".join(f"%r{100 + 4 * mi + j}" for j in range(4))
            emit(f"    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{regs}}}, [%r67];")
        for nj in range(2):
            emit(f"    add.u32 %r67, %r64, {16 * kk};                             // k row of B")
            emit(
                f"    shr.u32 %r68, %r63, 3; add.u32 %r68, %r68, {2 * nj}; add.u32 %r68, %r68, %r65;"
            )
            emit("    and.b32 %r69, %r67, 7; xor.b32 %r68, %r68, %r69;")
            emit("    shl.b32 %r67, %r67, 7; shl.b32 %r68, %r68, 4; add.u32 %r67, %r67, %r68;")
            emit(f"    add.u32 %r67, %r67, %r66; add.u32 %r67, %r67, {a_bytes};")
            regs = ", ".join(f"%r{110 + 4 * nj + j}" for j in range(4))
            emit(f"    ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {{{regs}}}, [%r67];")
        for mi in range(2):
            for n8 in range(4):
                acc = ", ".join(f"%f{(mi * 4 + n8) * 4 + j}" for j in range(4))
                a = ", ".join(f"%r{100 + 4 * mi + j}" for j in range(4))
                first = 110 + 4 * (n8 // 2) + 2 * (n8 % 2)
                emit(
                    "    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                    f"{{{acc}}}, {{{a}}}, {{%r{first}, %r{first + 1}}}, {{{acc}}};"
                )
    if not broken.barrier_before_refill:
        emit("    bar.sync 0;")
    emit(f"    xor.b32 %r44, %r44, {stage};")
    emit("    add.u32 %r43, %r43, 1;")
    emit("    setp.lt.u32 %p20, %r43, %r40;")
    emit("    @%p20 bra LOOP;")
    emit("    cp.async.wait_all;")
    emit("    shr.u32 %r70, %r60, 2; and.b32 %r71, %r60, 3; shl.b32 %r71, %r71, 1;")
    for mi in range(2):
        for half in range(2):
            emit(
                f"    add.u32 %r72, %r8, %r62; add.u32 %r72, %r72, %r70; add.u32 %r72, %r72, {16 * mi + 8 * half};"
            )
            emit("    setp.lt.u32 %p30, %r72, %r1;")
            for n8 in range(4):
                f = (mi * 4 + n8) * 4 + 2 * half
                emit(
                    f"    add.u32 %r73, %r7, %r63; add.u32 %r73, %r73, %r71; add.u32 %r73, %r73, {8 * n8};"
                )
                emit("    setp.lt.and.u32 %p31, %r73, %r2, %p30;")
                emit(f"    cvt.rn.f16x2.f32 %r74, %f{f + 1}, %f{f};")
                emit("    mad.lo.u32 %r75, %r72, %r2, %r73; mul.wide.u32 %rd20, %r75, 2;")
                emit("    add.u64 %rd20, %rd3, %rd20;")
                emit("    @%p31 st.global.b32 [%rd20], %r74;")
    emit("    ret;\n}")
    return "\n".join(out) + "\n"
