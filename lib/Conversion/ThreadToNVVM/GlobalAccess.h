//===- GlobalAccess.h - tiles of device tensors -----------------*- C++ -*-===//

#ifndef MIRAGE_LIB_CONVERSION_THREADTONVVM_GLOBALACCESS_H
#define MIRAGE_LIB_CONVERSION_THREADTONVVM_GLOBALACCESS_H

#include "Emitter.h"

#include "mirage/Dialect/Thread/IR/LinearLayout.h"

#include "mlir/IR/BuiltinTypes.h"

namespace mirage::thread {

/// Discardable attribute that `annotateAccesses` sets on ops which access device tensors, in
/// addition to `kAlignAttr`: a divisor of each offset.
constexpr llvm::StringLiteral kDivisorsAttr = "thread.divisors";

/// Discardable attribute that `annotateAccesses` sets on ops which access an interleaved parameter:
/// threads that hold neighbours in several of these access them together.
constexpr llvm::StringLiteral kBesideOthersAttr = "thread.beside_others";

/// Records the facts about alignment and dynamic tensors that follow from the original values,
/// before the conversion replaces them. Fails if an access to a dynamic tensor cannot be limited to
/// the existing rows.
llvm::LogicalResult annotateAccesses(mlir::Operation *root);

/// The greatest known divisor of an index, a power of two (0 counts as 2^20).
int64_t getDivisor(mlir::Value index);

/// A tile of a device tensor: element (r, c) of it is at `offsets` plus r along
/// `dims[0]` plus c along `dims[1]`.
class GlobalTile {
public:
  GlobalTile(mlir::Operation *op, mlir::MemRefType type, llvm::ArrayRef<int64_t> dims,
             llvm::ArrayRef<bool> inBounds, llvm::ArrayRef<int64_t> shape,
             std::optional<llvm::ArrayRef<int64_t>> extents = std::nullopt);

  int64_t getElementBytes() const { return elementBytes; }
  /// Elements from one row or column to the next.
  int64_t getStride(int64_t axis) const { return dims[axis] < 0 ? 0 : strides[dims[axis]]; }
  /// Whether elements may lie outside the tensor along an axis.
  bool isChecked(int64_t axis) const { return dims[axis] >= 0 && !inBounds[axis]; }
  /// Whether the tile has padding along an axis: elements from `extents` on.
  bool isPadded(int64_t axis) const { return extents[axis] < shape[axis]; }

  /// Whether the size of the tensor is known only at run time.
  bool isDynamic() const { return unit != 0; }

  /// Elements from the tensor's first one to its last one.
  int64_t countElements() const;
  /// Bytes from the tile's first element to the end of its last one; if this is below 2^31, 32 bits
  /// suffice for places of elements in the tile.
  int64_t countTileBytes() const;
  /// Whether the tensor's first element starts a word of 4 bytes.
  bool startsAtWord() const { return align % 4 == 0 && offset * elementBytes % 4 == 0; }

  /// Whether the tile's first element certainly starts at a multiple of this number of bytes.
  bool startsAt(int64_t bytes) const;

  /// The alignment, in bytes, that an access of `bytes` to an element (of lane 0 of warp 0)
  /// certainly has in all threads. For interleaved tensors it may be greater than `bytes`, and LLVM
  /// joins accesses to neighbours.
  int64_t getAlignment(const LinearLayout &layout, Coord constant, int64_t bytes) const;

  /// The most elements, a power of two up to `limit`, that one access along
  /// `axis` may cover: contiguous, aligned, and inside or outside all together.
  int64_t getVectorWidth(int64_t axis, int64_t limit) const;

  /// Starts an access by threads at (row, col) of the tile, which i32 values give.
  struct Access {
    mlir::Value pointer; // of element (row, col)
    mlir::Value origin;  // the tensor's first element: always there
    mlir::Value left[2]; // elements from row and col to the end of the tensor or of what is
                         // no padding, whichever comes first; null where neither is checked
    mlir::Value present; // bytes from the pointer to the end of what is there; of a dynamic
                         // tensor only
  };
  Access begin(Emitter &e, mlir::Value base, llvm::ArrayRef<mlir::Value> offsets, mlir::Value row,
               mlir::Value col) const;
  mlir::Value pointer(Emitter &e, const Access &access, Coord constant) const;
  /// Whether the element is inside; null if it certainly is.
  mlir::Value isInside(Emitter &e, const Access &access, Coord constant) const;

private:
  bool isAligned(int64_t axis, int64_t width) const;

  mlir::MemRefType type;
  llvm::SmallVector<int64_t> strides, divisors, dims, shape, extents;
  llvm::SmallVector<bool> inBounds;
  int64_t offset, elementBytes, align;
  /// For a dynamic tensor, elements for each unit of the size; otherwise 0.
  int64_t unit = 0;
  bool isBesideOthers;
  mlir::Operation *op;
};

} // namespace mirage::thread

#endif // MIRAGE_LIB_CONVERSION_THREADTONVVM_GLOBALACCESS_H
