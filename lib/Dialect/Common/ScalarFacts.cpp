//===- ScalarFacts.cpp - facts about scalar functions ---------------------===//

#include "mirage/Dialect/Common/ScalarFacts.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"

#include <iterator>
#include <limits>

using namespace mirage;

namespace {
// What llvm-tblgen makes of the records of ScalarOps.td.
struct Mirage_UnaryCase {
  uint8_t number;
  bool zeroAtZero;
  uint8_t work;
};
struct Mirage_BinaryCase {
  uint8_t number;
  bool zeroAtZero;
  bool isTruth;
};
#define GET_UnaryFacts_IMPL
#define GET_BinaryFacts_IMPL
#include "mirage/Dialect/Common/ScalarFacts.inc"

static_assert(std::size(UnaryFacts) == getMaxEnumValForUnaryFn() + 1 &&
                  std::size(BinaryFacts) == getMaxEnumValForBinaryFn() + 1,
              "a row for each function");

template <typename Rows, typename Fn> const auto &find(const Rows &rows, Fn fn) {
  for (const auto &row : rows)
    if (row.number == static_cast<uint32_t>(fn))
      return row;
  llvm_unreachable("every function has a row");
}
} // namespace

bool mirage::isZeroAtZero(UnaryFn fn) { return find(UnaryFacts, fn).zeroAtZero; }
bool mirage::isZeroAtZero(BinaryFn fn) { return find(BinaryFacts, fn).zeroAtZero; }
bool mirage::isTruth(BinaryFn fn) { return find(BinaryFacts, fn).isTruth; }

double mirage::getIdentity(CumulateFn fn) {
  switch (fn) {
  case CumulateFn::Sum:
    return 0.0;
  case CumulateFn::Max:
    return -std::numeric_limits<double>::infinity();
  case CumulateFn::Prod:
    return 1.0;
  }
  llvm_unreachable("unknown function");
}

int64_t mirage::getWork(UnaryFn fn) { return find(UnaryFacts, fn).work; }
