//===- TargetModule.cpp - the tables of include/mirage/Target for Python --===//
//
// An extension module of its own, `mirage._target`: neither MLIR nor LLVM is
// loaded with it, so the search and the cost model read the same rows as the
// code generator without the compiler.
//
//===----------------------------------------------------------------------===//

#include "mirage/Target/Chip.h"
#include "mirage/Target/Staging.h"
#include "mirage/Target/WarpSharing.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <optional>
#include <string>

namespace nb = nanobind;
using namespace mirage;

static nb::list listAbilities(const Chip &chip) {
  nb::list names;
  for (int ability = 0; ability < numAbilities; ++ability)
    if (chip.has(Ability(ability)))
      names.append(getKey(Ability(ability)));
  return names;
}

static nb::dict describe(const Chip &chip) {
  nb::dict row;
  row["chip"] = chip.name;
  row["capability"] = nb::make_tuple(chip.major, chip.minor);
  row["abilities"] = listAbilities(chip);
  row["shared_block"] = chip.sharedBlock;
  row["shared_sm"] = chip.sharedSm;
  row["registers_sm"] = chip.registersSm;
  row["registers_thread"] = chip.maxRegisters;
  row["threads_block"] = chip.maxThreads;
  row["threads_sm"] = chip.threadsSm;
  row["blocks_sm"] = chip.blocksSm;
  return row;
}

static nb::dict describe(const Card &card) {
  nb::dict row = describe(*card.chip);
  row["name"] = card.name;
  row["product"] = card.product;
  row["measured"] = card.measured;
  row["sms"] = card.sms;
  row["l2_size"] = card.l2Size;
  row["dram_bytes"] = card.dramBytes;
  row["l2_bytes"] = card.l2Bytes;
  row["sm_bytes"] = card.smBytes;
  row["box_l2_bytes"] = card.boxL2Bytes;
  row["box_sm_bytes"] = card.boxSmBytes;
  row["mma_half"] = card.mmaHalf;
  row["mma_group"] = card.mmaGroup;
  row["mma_f32"] = card.mmaF32;
  row["alu"] = card.alu;
  row["sfu"] = card.sfu;
  row["shared_bytes"] = card.sharedBytes;
  row["launch"] = card.launch;
  row["latency"] = card.latency;
  row["clock"] = card.clock;
  row["chain"] = card.chain;
  row["step"] = card.step;
  row["ring_step"] = card.ringStep;
  row["step_latency"] = card.stepLatency;
  row["step_warp"] = card.stepWarp;
  row["exchange"] = card.exchange;
  row["exchange_warp"] = card.exchangeWarp;
  row["gather"] = card.gather;
  row["combine"] = card.combine;
  row["block_start"] = card.blockStart;
  row["flight"] = card.flight;
  row["alone"] = card.alone;
  row["spill_bytes"] = card.spillBytes;
  return row;
}

static nb::tuple asTuple(const WarpGrid &grid) { return nb::make_tuple(grid.m, grid.n, grid.k); }

static nb::list asTuples(const std::vector<WarpGrid> &grids) {
  nb::list list;
  for (const WarpGrid &grid : grids)
    list.append(asTuple(grid));
  return list;
}

/// Chip.h
static void addChips(nb::module_ &module) {
  module.attr("DEFAULT_CHIP") = defaultChip;
  module.def("cards", [] {
    nb::list rows;
    for (const Card &card : getCards())
      rows.append(describe(card));
    return rows;
  });
  module.def("chips", [] {
    nb::list rows;
    for (const Chip &chip : getChips())
      rows.append(describe(chip));
    return rows;
  });
  module.def("known_chips", [] { return describeKnownChips(); });
  module.def(
      "find_card",
      [](const std::string &name) {
        const Card *card = Card::find(name);
        return card ? std::optional<std::string>(card->name) : std::nullopt;
      },
      nb::arg("name"));
  module.def(
      "card_of_device",
      [](int major, int minor, const std::string &device) -> std::optional<std::string> {
        const Chip *chip = Chip::find(major, minor);
        const Card *card = chip ? Card::find(*chip, device) : nullptr;
        return card ? std::optional<std::string>(card->name) : std::nullopt;
      },
      nb::arg("major"), nb::arg("minor"), nb::arg("device"));
  module.def(
      "most_registers",
      [](const std::string &name, int64_t warps) {
        const Chip *chip = Chip::find(name);
        if (!chip)
          throw nb::value_error(("expected " + describeKnownChips()).c_str());
        return chip->getMostRegisters(warps);
      },
      nb::arg("chip"), nb::arg("warps"));
}

/// WarpSharing.h
static void addWarpSharing(nb::module_ &module) {
  module.attr("EXCHANGE_COST") = exchangeCost;
  module.attr("COMFORTABLE_REGISTERS") = comfortableRegisters;
  module.attr("SPILL_COST") = spillCost;
  module.def(
      "warp_grids",
      [](int64_t m, int64_t n, int64_t k, int64_t elementBytes, int64_t warps) {
        return asTuples(getWarpGrids({m, n, k, elementBytes}, warps));
      },
      nb::arg("m"), nb::arg("n"), nb::arg("k"), nb::arg("element_bytes"), nb::arg("warps"));
  module.def(
      "warpgroup_grids",
      [](int64_t m, int64_t n, int64_t warps) { return asTuples(getWarpgroupGrids(m, n, warps)); },
      nb::arg("m"), nb::arg("n"), nb::arg("warps"));
  module.def(
      "product_cost",
      [](int64_t m, int64_t n, int64_t k, int64_t elementBytes, int64_t gm, int64_t gn,
         int64_t gk) { return getProductCost({m, n, k, elementBytes}, {gm, gn, gk}); },
      nb::arg("m"), nb::arg("n"), nb::arg("k"), nb::arg("element_bytes"), nb::arg("grid_m"),
      nb::arg("grid_n"), nb::arg("grid_k"));
  module.def("spill_cost", &getSpillCost, nb::arg("registers"));
  module.def("exchange_cost", &getExchangeCost, nb::arg("registers"));
  module.def("warp_sum_cost", &getWarpSumCost, nb::arg("held"), nb::arg("summands"),
             nb::arg("summed"));
  module.attr("WGMMA_BYTES") = wgmmaBytes;
  module.attr("PROMOTED_DEPTH") = promotedDepth;
  module.attr("PROMOTED_COLUMNS") = promotedColumns;
}

/// Staging.h
static void addStaging(nb::module_ &module) {
  module.attr("MIN_STAGED_BYTES") = minStagedBytes;
  module.attr("ASYNC_COPY_UNIT") = asyncCopyUnit;
  module.attr("LINE_BYTES") = lineBytes;
  module.attr("EXCHANGE_PAD") = exchangePad;
  module.attr("SLOT_BARRIER_BYTES") = slotBarrierBytes;
  module.attr("NARROW_ROWS") = narrowRows;
  module.attr("MIN_BOX_RANK") = minBoxRank;
  module.attr("MAX_BOX_RANK") = maxBoxRank;
  module.attr("MAX_BOX_ROWS") = maxBoxRows;
  module.attr("BOX_ROW_UNIT") = boxRowUnit;
  module.attr("BOX_TILE_UNIT") = boxTileUnit;
  module.def("shared_swizzle", &getSharedSwizzle, nb::arg("rows"), nb::arg("row_bytes"));
  module.def("skewed_pad", &getSkewedPad, nb::arg("row_bytes"), nb::arg("stride_bytes"),
             nb::arg("in_runs"));
  module.attr("RUN_ELEMENTS") = runElements;
  module.def("shared_alignment", &getSharedAlignment, nb::arg("swizzle"),
             nb::arg("is_skewed") = false);
}

NB_MODULE(_target, module) {
  module.doc() = "chips, and what the code generator decides from them";
  addChips(module);
  addWarpSharing(module);
  addStaging(module);
}
