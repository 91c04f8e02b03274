//===- Say.h - parts of a message as one text -------------------*- C++ -*-===//

#ifndef MIRAGE_DIALECT_COMMON_SAY_H
#define MIRAGE_DIALECT_COMMON_SAY_H

#include "llvm/Support/raw_ostream.h"

#include <string>

namespace mirage {

/// Writes texts, numbers and types one after the other.
template <typename... Parts> std::string say(const Parts &...parts) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  (stream << ... << parts);
  return text;
}

} // namespace mirage

#endif // MIRAGE_DIALECT_COMMON_SAY_H
