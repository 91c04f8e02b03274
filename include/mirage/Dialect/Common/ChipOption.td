//===- ChipOption.td - the option of passes that depend on the chip -------*- tablegen -*-===//

#ifndef MIRAGE_DIALECT_COMMON_CHIPOPTION_TD
#define MIRAGE_DIALECT_COMMON_CHIPOPTION_TD

include "mlir/Pass/PassBase.td"

def ChipOption : Option<"chip", "chip", "std::string", "::mirage::defaultChip",
                        "chip (sm_90a) or card (h200)">;

#endif
