//===- LayoutConversion.cpp - how values get from layout to layout --------===//

#include "mirage/Dialect/Thread/IR/LayoutConversion.h"

#include "mirage/Target/Staging.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <array>

using namespace mirage::thread;

llvm::SmallVector<int64_t> WarpConversion::getSelections() const {
  llvm::SmallVector<int64_t> selections = {0};
  auto extend = [&](int64_t source) {
    if (source == 0)
      return;
    for (size_t i = 0, e = selections.size(); i < e; ++i)
      selections.push_back(selections[i] ^ source);
  };
  for (Bit bit : laneBits)
    extend(bit.source);
  for (Bit bit : warpBits)
    extend(bit.source);
  llvm::sort(selections);
  return selections;
}

std::optional<WarpConversion> mirage::thread::planWarpConversion(const LinearLayout &from,
                                                                 const LinearLayout &to) {
  for (int64_t dim : {0, 1})
    if (from.getTileExtent(dim) != to.getTileExtent(dim))
      return std::nullopt;
  if (from.getWarp().size() != to.getWarp().size())
    return std::nullopt;
  for (auto [source, target] : llvm::zip(from.getWarp(), to.getWarp()))
    if (!source.isZero() && source != target)
      return std::nullopt;

  WarpConversion plan;
  bool laneMoves = false;
  for (int64_t j = 0; j < to.getNumRegisters(); ++j) {
    // A warp bit of the source is the same one in `to`, so no register needs it.
    auto [source, lane, warp] = from.invert(to.getRegister(j));
    if (warp != 0)
      return std::nullopt;
    plan.registers.push_back({source, lane});
    laneMoves |= lane != 0;
  }
  for (int64_t bit = 0; bit < 5; ++bit) {
    auto [source, lane, warp] = from.invert(to.getLane()[bit]);
    if (warp != 0)
      return std::nullopt;
    // If all lanes along a bit have the value, each takes its own.
    if (from.getLane()[bit].isZero())
      lane |= int64_t(1) << bit;
    plan.laneBits[bit] = {source, lane};
    laneMoves |= lane != int64_t(1) << bit;
  }
  for (int64_t bit = 0, e = to.getWarp().size(); bit < e; ++bit) {
    auto [source, lane, warp] = from.invert(to.getWarp()[bit]);
    if (warp != 0 && warp != int64_t(1) << bit)
      return std::nullopt;
    plan.warpBits.push_back({source, lane});
    laneMoves |= lane != 0;
  }
  plan.shuffles = laneMoves;
  // Every selection costs a shuffle or a select for each register.
  if (plan.getSelections().size() > (plan.shuffles ? 4 : 8))
    return std::nullopt;
  return plan;
}

/// The most different words of one bank that the lanes of a warp write at once, for this number of
/// elements between rows.
static int64_t getWritesOfABank(FragmentType fragment, int64_t pad) {
  const LinearLayout &layout = fragment.getLinearLayout();
  int64_t stride = layout.getExtent(1) + pad;
  int64_t bits = fragment.getElementType().getIntOrFloatBitWidth();
  std::array<llvm::SmallDenseSet<int64_t, 32>, 32> words;
  for (int64_t lane = 0; lane < 32; ++lane) {
    Coord at = layout.getLaneOffset(lane);
    int64_t word = (at.row * stride + at.col) * bits / 32;
    words[word % 32].insert(word);
  }
  auto size = [](const auto &each) { return int64_t(each.size()); };
  return *llvm::max_element(llvm::map_range(words, size));
}

/// The elements between rows. Threads that have neighbours of a column write them one by one, their
/// lanes several rows apart: often to few banks, unless a row has an odd number of words. Such rows
/// are read word by word, so they are used only if the time falls to a fourth.
static int64_t getExchangePad(FragmentType fragment) {
  const LinearLayout &layout = fragment.getLinearLayout();
  if (layout.contiguous(0) == 1 || layout.contiguous(1) > 1)
    return mirage::exchangePad;
  unsigned bits = fragment.getElementType().getIntOrFloatBitWidth();
  int64_t odd = std::max<int64_t>(32 / bits, 1);
  bool faster =
      4 * getWritesOfABank(fragment, odd) <= getWritesOfABank(fragment, mirage::exchangePad);
  return faster ? odd : mirage::exchangePad;
}

SharedType mirage::thread::getExchangeType(FragmentType fragment) {
  return SharedType::get(fragment.getShape(), fragment.getElementType(), /*swizzle=*/0,
                         getExchangePad(fragment));
}
