//===- Chip.h - what a GPU can do and how much it has -----------*- C++ -*-===//
//
// The one table of chips and of the cards that carry them. Passes query it for abilities and limits
// and never compare names; the cost model, which is written in Python, also reads its rates from
// here (python/bindings). Plain C++: neither LLVM nor MLIR, so that reading the table loads nothing
// else.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_TARGET_CHIP_H
#define MIRAGE_TARGET_CHIP_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mirage {

/// A mechanism that only some chips have.
enum class Ability : uint8_t {
  AsyncCopy,       ///< copies from global to shared memory under way (cp.async)
  Bf16Mma,         ///< tensor-core products of bf16 (mma.sync)
  Tf32Mma,         ///< tensor-core products of f32 rounded to TF32
  Fp8Mma,          ///< tensor-core products of 8-bit floats
  Mbarrier,        ///< mbarriers that count bytes and on which threads sleep
  TensorCopy,      ///< tensor memory accelerator: bulk and tensor copies
  Clusters,        ///< blocks that read each other's shared memory
  WarpgroupMma,    ///< products of four warps from shared memory (wgmma)
  WarpRegisters,   ///< registers that move from warp to warp (setmaxnreg)
  DependentLaunch, ///< kernels that start before the previous one has ended
};
inline constexpr int numAbilities = int(Ability::DependentLaunch) + 1;

/// The name of an ability in messages, and in data (`tensor_copy`).
std::string_view getName(Ability ability);
std::string_view getKey(Ability ability);

/// A compilation target: the common properties of all GPUs of one compute capability. Memory in
/// bytes.
struct Chip {
  std::string_view name;
  int major, minor;     ///< compute capability
  uint32_t abilities;   ///< one bit each
  int64_t sharedBlock;  ///< shared memory that one block can opt in to
  int64_t sharedSm;     ///< shared memory of a multiprocessor
  int64_t registersSm;  ///< 32-bit registers of a multiprocessor
  int64_t maxRegisters; ///< 32-bit registers of one thread
  int64_t maxThreads;   ///< threads of a block
  int64_t threadsSm;    ///< threads of a multiprocessor
  int64_t blocksSm;     ///< blocks of a multiprocessor

  constexpr bool has(Ability ability) const { return abilities >> int(ability) & 1; }

  /// Registers that a thread of a block of `warps` warps can have: each of the
  /// four partitions of a multiprocessor has a quarter of the registers and
  /// every fourth warp; they are allocated in units of 8.
  int64_t getMostRegisters(int64_t warps) const;

  /// Multiprocessors of the smallest card that code for this chip may run on.
  int64_t getFewestSms() const;

  /// The row called `name`, or that of the card with this name; nullptr if there is none.
  static const Chip *find(std::string_view name);
  /// The row for a compute capability, or nullptr.
  static const Chip *find(int major, int minor);
};

/// A product: its resources and their speeds, for the cost model. Times in µs, rates per µs, sizes
/// in bytes; one SM is a multiprocessor.
struct Card {
  std::string_view name;
  const Chip *chip;
  /// Words of the driver's name for it, separated by blanks.
  std::string_view product;
  /// Whether rates and latencies are fitted to measured kernels; otherwise they come from data
  /// sheets.
  bool measured;
  int64_t sms;
  int64_t l2Size;
  double dramBytes;  ///< streaming read
  double l2Bytes;    ///< that all SMs together read from L2
  double smBytes;    ///< that one SM can take in
  double boxL2Bytes; ///< the two for what the tensor memory accelerator copies
  double boxSmBytes;
  double mmaHalf;      ///< flop of one SM, f16 or bf16 operands
  double mmaGroup;     ///< the same by warpgroups from shared memory; 0: none
  double mmaF32;       ///< the same for f32 operands (three TF32 products each)
  double alu;          ///< f32 lane operations of one SM
  double sfu;          ///< special-function results of one SM
  double sharedBytes;  ///< shared-memory bytes of one SM
  double launch;       ///< an empty kernel in graph replay
  double latency;      ///< first byte from DRAM
  double clock;        ///< clocks per µs
  double chain;        ///< factor on the latency of dependent instructions
  double step;         ///< clocks of a loop step besides its work (waiting, barrier, copy issue)
  double ringStep;     ///< the same where one warp keeps a ring of tiles filled for the others
  double stepLatency;  ///< until what a loop step has asked for is there
  double stepWarp;     ///< clocks more of a step for each warp
  double exchange;     ///< clocks of a reduction across the lanes and warps of a block
  double exchangeWarp; ///< more of them for each warp
  double gather;       ///< clocks for each value of another warp that a thread adds up
  double combine;      ///< extra time of a dependent kernel
  double blockStart;   ///< between the starts of two blocks of four warps on one SM
  double flight;       ///< bytes in flight of an SM that sustain 0.7 of DRAM's bandwidth
  double alone;        ///< more of a block that multiplies without a loop: nothing is
                       ///< loaded meanwhile
  double spillBytes;   ///< that all SMs together spill and read back

  /// The card called `name`; for a chip's name the first card of that chip.
  static const Card *find(std::string_view name);
  /// The card that the driver calls `device`: among the chip's cards whose words are all in this
  /// name, the one with the most words; otherwise the chip's first card.
  static const Card *find(const Chip &chip, std::string_view device);
};

/// The target for which code is generated by default.
inline constexpr char defaultChip[] = "sm_90a";

/// All rows, in the order in which they are listed in messages.
const std::vector<Chip> &getChips();
const std::vector<Card> &getCards();

/// "a known chip (sm_80, …) or card (a100, …)", for messages.
std::string describeKnownChips();

} // namespace mirage

#endif // MIRAGE_TARGET_CHIP_H
