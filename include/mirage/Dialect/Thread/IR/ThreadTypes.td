//===- ThreadTypes.td - types of the thread dialect ------------*- tablegen -*-===//

#ifndef MIRAGE_DIALECT_THREAD_IR_THREADTYPES_TD
#define MIRAGE_DIALECT_THREAD_IR_THREADTYPES_TD

include "mirage/Dialect/Thread/IR/ThreadAttrs.td"
include "mirage/Dialect/Thread/IR/ThreadDialect.td"
include "mlir/IR/AttrTypeBase.td"

class Thread_Type<string name, string typeMnemonic> : TypeDef<Thread_Dialect, name> {
  let mnemonic = typeMnemonic;
}

def Thread_FragmentType : Thread_Type<"Fragment", "fragment"> {
  let summary = "a 2-D tile in the registers of all warps";
  let description = [{
    Element types: f16, bf16, f32, i32, i64. With `partial`, the owners of an element
    in different warps hold summands of it instead of copies (because K is split over
    the warps); the sum is over the warp bits whose vector is zero.
    `thread.reduce_warps` computes it.

    Examples: `!thread.fragment<16x24xf32, #layout>`,
    `!thread.fragment<16x8xf32, #layout, partial>`.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$elementType,
                        "::mirage::thread::LayoutAttr":$layout, "bool":$partial);
  let builders = [
    TypeBuilderWithInferredContext<(ins "::llvm::ArrayRef<int64_t>":$shape, "::mlir::Type":$elementType,
      "const ::mirage::thread::LinearLayout &":$layout, CArg<"bool", "false">:$partial)>,
    /// The shape is the layout's.
    TypeBuilderWithInferredContext<(ins "::mlir::Type":$elementType,
      "const ::mirage::thread::LinearLayout &":$layout, CArg<"bool", "false">:$partial)>];
  let extraClassDeclaration = [{
    int64_t getRows() const { return getShape()[0]; }
    int64_t getCols() const { return getShape()[1]; }
    const LinearLayout &getLinearLayout() const;
    /// Elements that one thread holds.
    int64_t getNumRegisters() const;
    FragmentType withElementType(::mlir::Type elementType) const;
    FragmentType withPartial(bool partial) const;
    FragmentType withLayout(const LinearLayout &layout) const;
  }];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Thread_SharedType : Thread_Type<"Shared", "shared"> {
  let summary = "a 2-D tile in shared memory, or a ring of such tiles";
  let description = [{
    Shape `rows x cols`, or `slots x rows x cols` for a ring. Without a swizzle
    the tile is row-major, each row followed by `pad` unused elements. With
    `swizzle = s` (32, 64 or 128 bytes) the columns are cut into panels of `s`
    bytes; each panel is stored whole, row after row, the panels one after the
    other, and the 16-byte chunks of a row are permuted by XOR with the row
    number, as the tensor memory accelerator and `wgmma` expect it:

        offset = panel * rows * s + row * s + ((chunk ^ key(row)) * 16) + byte
        key(row) = (row * s / 128) mod (s / 16)

    A swizzled tile starts at a multiple of 8 * s bytes.

    Rows are *skewed* if the pad makes their pitch and the stride of the tensor's
    rows differ by a multiple of 16 bytes: each row then has the same offset from such a multiple as
    in the tensor, and is copied in whole lines of 16 bytes even if rows start at odd elements. Such
    tiles start at a multiple of 128 bytes, so that rows can also keep their offset from a multiple
    of 128 bytes.

    Examples: `!thread.shared<128x64xf16, swizzle = 128>`,
    `!thread.shared<3x16x24xf32, pad = 4>`,
    `!thread.shared<64x64xf16, pad = 15>` (skewed rows of 4095 elements).
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$elementType,
                        "int64_t":$swizzle, "int64_t":$pad);
  let builders = [
    TypeBuilderWithInferredContext<(ins "::llvm::ArrayRef<int64_t>":$shape, "::mlir::Type":$elementType,
      CArg<"int64_t", "0">:$swizzle, CArg<"int64_t", "0">:$pad)>];
  let extraClassDeclaration = [{
    bool isRing() const { return getShape().size() == 3; }
    /// Whether rows start at odd elements of 2 bytes, like skewed ones.
    bool startsAtOddElements() const {
      return getElementBytes() == 2 && !getSwizzle() && getRowPitch() % 4 == 2;
    }
    int64_t getSlots() const { return isRing() ? getShape().front() : 1; }
    int64_t getRows() const { return getShape()[getShape().size() - 2]; }
    int64_t getCols() const { return getShape().back(); }
    int64_t getElementBytes() const;
    /// Bytes from one row to the next (within a panel).
    int64_t getRowPitch() const;
    /// Bytes from one slot to the next: the size of a tile, rounded up to the alignment.
    int64_t getSlotBytes() const;
    /// Bytes of the whole ring.
    int64_t getTotalBytes() const { return getSlots() * getSlotBytes(); }
    /// Required alignment of the first byte: 16, 8 times the swizzle, or 128 for skewed rows.
    int64_t getAlignment() const;
    /// Byte offset of an element within its slot.
    int64_t getByteOffset(int64_t row, int64_t col) const;
    /// The type of one slot.
    SharedType getSlotType() const;
  }];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Thread_MbarrierType : Thread_Type<"Mbarrier", "mbarrier"> {
  let summary = "an array of mbarriers in shared memory, 8 bytes each";
  let description = "Example: `!thread.mbarrier<4>`.";
  let parameters = (ins "int64_t":$count);
  let assemblyFormat = "`<` $count `>`";
  let genVerifyDecl = 1;
}

def Thread_RingType : Thread_Type<"Ring", "ring"> {
  let summary = "slots of shared tiles that one warp fills and other warps read, in turn";
  let description = [{
    `slots` sets of tiles, each with two mbarriers: *full* completes when copies
    have delivered all bytes of the set, and *empty* completes when all readers have
    released it. Both sides count steps from 0; step `s` uses slot `s mod slots` in
    round `s / slots`. `mirage-expand-rings` replaces rings by tiles and barriers.

    Example: `!thread.ring<4, <128x64xf16, swizzle = 128>, <64x256xf16, swizzle = 128>>`.
  }];
  let parameters = (ins "int64_t":$slots, ArrayRefParameter<"::mirage::thread::SharedType">:$tiles);
  let assemblyFormat = "`<` $slots `,` $tiles `>`";
  let extraClassDeclaration = [{
    /// Bytes that one step delivers, and those of one of its tiles.
    int64_t getStepBytes() const;
    int64_t getTileBytes(int64_t number) const;
  }];
  let genVerifyDecl = 1;
}

def Thread_TensorMapType : Thread_Type<"TensorMap", "tensormap"> {
  let summary = "a kernel parameter that describes a tensor to the tensor memory accelerator";
  let description = [{
    A 128-byte `CUtensorMap`, passed by value. `box` is the part that one copy
    moves, outermost dimension first. With a swizzle, its last dimension spans at
    most `swizzle` bytes, so a wider tile needs several copies.

    Example: `!thread.tensormap<128x64xf16, swizzle = 128>`.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$box, "::mlir::Type":$elementType,
                        "int64_t":$swizzle);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

#endif // MIRAGE_DIALECT_THREAD_IR_THREADTYPES_TD
