//===- Chip.cpp - the table of chips and cards ----------------------------===//

#include "mirage/Target/Chip.h"

#include <algorithm>
#include <limits>

using namespace mirage;

namespace {
struct AbilityNames {
  std::string_view key, name;
};
// In the order of the enum.
constexpr AbilityNames abilityNames[] = {
    {"async_copy", "asynchronous copies (cp.async)"},
    {"bf16_mma", "products of bf16"},
    {"tf32_mma", "products of tf32"},
    {"fp8_mma", "products of fp8"},
    {"mbarrier", "mbarriers that count bytes"},
    {"tensor_copy", "the tensor memory accelerator"},
    {"clusters", "clusters of blocks"},
    {"warpgroup_mma", "warpgroup products (wgmma)"},
    {"warp_registers", "registers that move between warps (setmaxnreg)"},
    {"dependent_launch", "dependent launches"},
};
static_assert(sizeof(abilityNames) / sizeof(abilityNames[0]) == numAbilities,
              "a name for each ability");
} // namespace

std::string_view mirage::getName(Ability ability) { return abilityNames[int(ability)].name; }
std::string_view mirage::getKey(Ability ability) { return abilityNames[int(ability)].key; }

//===----------------------------------------------------------------------===//
// Chips
//===----------------------------------------------------------------------===//

namespace {

constexpr uint32_t bit(Ability ability) { return uint32_t(1) << int(ability); }
constexpr uint32_t ampere = bit(Ability::AsyncCopy) | bit(Ability::Bf16Mma) | bit(Ability::Tf32Mma);
constexpr uint32_t ada = ampere | bit(Ability::Fp8Mma);
constexpr uint32_t hopper = ada | bit(Ability::Mbarrier) | bit(Ability::TensorCopy) |
                            bit(Ability::Clusters) | bit(Ability::WarpgroupMma) |
                            bit(Ability::WarpRegisters) | bit(Ability::DependentLaunch);
constexpr int64_t KiB = 1024, MiB = 1024 * 1024;

// Source: CUDA C++ Programming Guide, "Compute Capabilities", tables of feature
// support and of technical specifications (of each block's shared memory the
// system keeps 1 KiB).
// name, capability, abilities, shared memory of a block and an SM, registers of
// an SM and a thread, threads of a block and an SM, blocks of an SM
constexpr Chip sm80 = {"sm_80", 8, 0, ampere, 163 * KiB, 164 * KiB, 64 * KiB, 255, 1024, 2048, 32};
constexpr Chip sm86 = {"sm_86", 8, 6, ampere, 99 * KiB, 100 * KiB, 64 * KiB, 255, 1024, 1536, 16};
constexpr Chip sm89 = {"sm_89", 8, 9, ada, 99 * KiB, 100 * KiB, 64 * KiB, 255, 1024, 1536, 24};
constexpr Chip sm90a = {"sm_90a", 9,   0,    hopper, 227 * KiB, 228 * KiB,
                        64 * KiB, 255, 1024, 2048,   32};

//===----------------------------------------------------------------------===//
// Cards
//===----------------------------------------------------------------------===//

const Chip *row(const Chip &chip) {
  for (const Chip &other : getChips())
    if (other.name == chip.name)
      return &other;
  return nullptr;
}

/// Sizes and counts from the data sheet; rates and latencies fitted to kernels
/// measured on one card (CUDA-graph replay, cold L2; benchmarks/calibrate.py).
Card makeH200() {
  Card c = {};
  c.name = "h200", c.chip = row(sm90a), c.product = "H200", c.measured = true;
  c.sms = 132, c.l2Size = 60 * MiB;
  c.dramBytes = 4.4e6, c.l2Bytes = 5.1e6, c.smBytes = 54e3;
  c.boxL2Bytes = 9.0e6, c.boxSmBytes = 70e3;
  c.mmaHalf = 4.0e6, c.mmaGroup = 5.6e6, c.mmaF32 = 0.6e6;
  c.alu = 1.62e5, c.sfu = 2.26e4, c.sharedBytes = 2.48e5;
  c.launch = 0.68, c.latency = 1.2, c.clock = 1755.0, c.chain = 0.81;
  c.step = 186.0, c.ringStep = 60.0, c.stepLatency = 0.76, c.stepWarp = 8.4;
  c.exchange = 174.0, c.exchangeWarp = 14.3, c.gather = 10.0, c.combine = 0.45;
  c.blockStart = 0.054, c.flight = 30e3, c.alone = 0.52, c.spillBytes = 6.2e6;
  return c;
}

/// Other memory on the same chip: DRAM's bandwidth is in the proportion of the data sheets, and so
/// are the bytes that must be in flight.
Card withMemory(Card card, std::string_view name, std::string_view product, int64_t sms,
                int64_t l2Size, double dramBytes) {
  double scale = dramBytes / card.dramBytes * double(card.sms) / double(sms);
  card.flight *= scale;
  double l2 = double(sms) / double(card.sms);
  card.l2Bytes *= l2, card.boxL2Bytes *= l2, card.spillBytes *= l2;
  card.name = name, card.product = product, card.measured = false;
  card.sms = sms, card.l2Size = l2Size, card.dramBytes = dramBytes;
  return card;
}

/// SXM4, 40 GB: public data sheets, and the H200's latencies in clocks; not
/// measured.
Card makeA100() {
  Card c = {};
  c.name = "a100", c.chip = row(sm80), c.product = "A100", c.measured = false;
  c.sms = 108, c.l2Size = 40 * MiB;
  c.dramBytes = 1.4e6, c.l2Bytes = 3.4e6, c.smBytes = 45e3;
  c.boxL2Bytes = 3.4e6, c.boxSmBytes = 45e3;
  c.mmaHalf = 2.4e6, c.mmaGroup = 0.0, c.mmaF32 = 0.35e6;
  c.alu = 64 * 1410.0 * 0.8, c.sfu = 16 * 1410.0, c.sharedBytes = 128 * 1410.0;
  c.launch = 1.5, c.latency = 1.2, c.clock = 1410.0, c.chain = 0.81;
  c.step = 186.0, c.ringStep = 186.0, c.stepLatency = 0.76, c.stepWarp = 8.4;
  c.exchange = 174.0, c.exchangeWarp = 14.3, c.gather = 10.0, c.combine = 1.0;
  c.blockStart = 0.09, c.flight = 22e3, c.alone = 0.52, c.spillBytes = 3.0e6;
  return c;
}

/// A card of sm_86 or sm_89, from its data sheet: boost clock in MHz, peak of
/// DRAM in bytes per µs, and flop of one SM per clock with f16 operands and f32
/// sums (on GeForce half of what the same chip has on other cards; TF32 half of
/// that). The usable shares of the peaks of DRAM and of the tensor cores are those of the A100's
/// row (0.9, 0.83, TF32 0.73), and that of the lanes is the H200's (0.72); L2 gives an SM 16 bytes
/// per clock, and an SM takes 30. Latencies are the A100's. Not measured.
Card fromSheet(std::string_view name, const Chip &chip, std::string_view product, int64_t sms,
               int64_t l2Size, double clock, double dramPeak, double mmaFlop) {
  Card c = makeA100();
  c.name = name, c.chip = row(chip), c.product = product;
  c.sms = sms, c.l2Size = l2Size, c.clock = clock;
  c.dramBytes = 0.9 * dramPeak;
  c.l2Bytes = c.boxL2Bytes = 16 * clock * double(sms);
  c.smBytes = c.boxSmBytes = 30 * clock;
  c.mmaHalf = 0.83 * mmaFlop * clock;
  c.mmaF32 = 0.73 * mmaFlop / 2 * clock / 3;
  c.alu = 0.72 * 128 * clock, c.sfu = 16 * clock, c.sharedBytes = 128 * clock;
  // Bytes that arrive during DRAM's latency, times 1.4 as on the A100.
  c.flight = 1.4 * c.dramBytes * c.latency / double(sms);
  c.spillBytes = 0.9 * c.l2Bytes;
  return c;
}

/// The words of a product's name, which blanks and hyphens separate.
std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    size_t end = std::min(text.find_first_of(" -"), text.size());
    if (end > 0)
      words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

template <typename Row> std::string listNames(const std::vector<Row> &rows) {
  std::string text;
  for (const Row &each : rows)
    (text += text.empty() ? "" : ", ") += each.name;
  return text;
}

} // namespace

//===----------------------------------------------------------------------===//
// The tables
//===----------------------------------------------------------------------===//

const std::vector<Chip> &mirage::getChips() {
  static const std::vector<Chip> chips = {sm80, sm86, sm89, sm90a};
  return chips;
}

const std::vector<Card> &mirage::getCards() {
  // The first card of each chip represents the chip, and cards that are not listed.
  static const std::vector<Card> cards = {
      makeA100(),
      withMemory(makeA100(), "a100-80gb", "A100 80GB", 108, 40 * MiB, 1.83e6),
      withMemory(makeA100(), "a30", "A30", 56, 24 * MiB, 0.84e6),
      fromSheet("rtx3090", sm86, "RTX 3090", 82, 6 * MiB, 1695, 0.936e6, 512),
      fromSheet("a10", sm86, "A10", 72, 6 * MiB, 1695, 0.600e6, 1024),
      fromSheet("a10g", sm86, "A10G", 80, 6 * MiB, 1710, 0.600e6, 512),
      fromSheet("a40", sm86, "A40", 84, 6 * MiB, 1740, 0.696e6, 1024),
      fromSheet("rtxa6000", sm86, "RTX A6000", 84, 6 * MiB, 1800, 0.768e6, 1024),
      fromSheet("rtx4090", sm89, "RTX 4090", 128, 72 * MiB, 2520, 1.008e6, 512),
      fromSheet("l4", sm89, "L4", 58, 48 * MiB, 2040, 0.300e6, 1024),
      fromSheet("l40s", sm89, "L40S", 142, 96 * MiB, 2520, 0.864e6, 1024),
      makeH200(),
      withMemory(makeH200(), "h100", "H100", 132, 50 * MiB, 3.07e6),
      withMemory(makeH200(), "h100-pcie", "H100 PCIe", 114, 50 * MiB, 1.87e6),
      withMemory(makeH200(), "h100-nvl", "H100 NVL", 132, 50 * MiB, 3.6e6),
      withMemory(makeH200(), "gh200", "GH200", 132, 60 * MiB, 3.7e6),
  };
  return cards;
}

//===----------------------------------------------------------------------===//
// Looking up
//===----------------------------------------------------------------------===//

int64_t Chip::getMostRegisters(int64_t warps) const {
  constexpr int64_t partitions = 4, unit = 8;
  int64_t threads = 32 * ((warps + partitions - 1) / partitions * partitions);
  return std::min(maxRegisters, registersSm / threads / unit * unit);
}

int64_t Chip::getFewestSms() const {
  int64_t fewest = std::numeric_limits<int64_t>::max();
  for (const Card &card : getCards())
    if (card.chip->name == name)
      fewest = std::min(fewest, card.sms);
  return fewest;
}

const Chip *Chip::find(std::string_view name) {
  const Card *card = Card::find(name);
  return card ? card->chip : nullptr;
}

const Chip *Chip::find(int major, int minor) {
  for (const Chip &chip : getChips())
    if (chip.major == major && chip.minor == minor)
      return &chip;
  return nullptr;
}

const Card *Card::find(std::string_view name) {
  for (const Card &card : getCards())
    if (card.name == name || card.chip->name == name)
      return &card;
  return nullptr;
}

const Card *Card::find(const Chip &chip, std::string_view device) {
  std::vector<std::string_view> there = split(device);
  const Card *best = nullptr;
  size_t most = 0;
  for (const Card &card : getCards()) {
    if (card.chip->name != chip.name)
      continue;
    std::vector<std::string_view> words = split(card.product);
    bool named = std::all_of(words.begin(), words.end(), [&](std::string_view word) {
      return std::find(there.begin(), there.end(), word) != there.end();
    });
    if (!best || (named && words.size() > most)) {
      best = &card;
      most = named ? words.size() : 0;
    }
  }
  return best;
}

std::string mirage::describeKnownChips() {
  return "a known chip (" + listNames(getChips()) + ") or card (" + listNames(getCards()) + ")";
}
