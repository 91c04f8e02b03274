//===- LayoutConversion.h - how values get from layout to layout -*- C++ -*-===//

#ifndef MIRAGE_DIALECT_THREAD_IR_LAYOUTCONVERSION_H
#define MIRAGE_DIALECT_THREAD_IR_LAYOUTCONVERSION_H

#include "mirage/Dialect/Thread/IR/Thread.h"

namespace mirage::thread {

/// A conversion between layouts in which all values stay in their warps.
///
/// Register j of lane l of warp w of the result is register
/// `registers[j].source ^ selected` of lane `registers[j].lane ^ moved` of the
/// source, where `selected` and `moved` combine (XOR) the entries of the tables
/// below for the set bits of l and w.
struct WarpConversion {
  struct Register {
    int64_t source, lane;
  };
  /// The contribution of one bit of the lane or warp index.
  struct Bit {
    int64_t source = 0, lane = 0;
  };
  llvm::SmallVector<Register> registers;
  std::array<Bit, 5> laneBits;
  llvm::SmallVector<Bit> warpBits;
  /// Whether any value changes its lane.
  bool shuffles = false;

  /// The distinct values of `selected`, ascending, 0 first.
  llvm::SmallVector<int64_t> getSelections() const;
};

/// The conversion within warps, or nullopt if values change warps or if an exchange through shared
/// memory is cheaper.
std::optional<WarpConversion> planWarpConversion(const LinearLayout &from, const LinearLayout &to);

/// The shared tile through which other conversions of a fragment go.
SharedType getExchangeType(FragmentType fragment);

} // namespace mirage::thread

#endif // MIRAGE_DIALECT_THREAD_IR_LAYOUTCONVERSION_H
