// The words of rows and packing.
#include "config/values.h"

namespace spillway::config {
namespace {

constexpr Word<ExcessLength> kExcessLengths[] = {
    {"drop", ExcessLength::kDrop}, {"truncate", ExcessLength::kTruncate}, {"raise", ExcessLength::kRaise}};

constexpr Word<PackingStrategy> kPackingStrategies[] = {{"bfd", PackingStrategy::kBfd},
                                                        {"bfd_split", PackingStrategy::kBfdSplit},
                                                        {"bfd-requeue", PackingStrategy::kBfdSplit},  // its old name
                                                        {"wrapped", PackingStrategy::kWrapped}};

constexpr Word<PackingScope> kPackingScopes[] = {{"batch", PackingScope::kBatch}, {"dataset", PackingScope::kDataset}};

constexpr Word<MicroBatchOrder> kMicroBatchOrders[] = {{"auto", MicroBatchOrder::kAuto},
                                                       {"horizontal", MicroBatchOrder::kHorizontal},
                                                       {"vertical", MicroBatchOrder::kVertical}};

constexpr Word<SamplingStrategy> kSamplings[] = {{"random", SamplingStrategy::kRandom},
                                                 {"sequential", SamplingStrategy::kSequential},
                                                 {"group_by_length", SamplingStrategy::kGroupByLength}};

constexpr Word<TruncationMode> kTruncationModes[] = {{"keep_start", TruncationMode::kKeepStart},
                                                     {"keep_end", TruncationMode::kKeepEnd}};

constexpr Word<TrainOnEos> kTrainOnEos[] = {
    {"turn", TrainOnEos::kTurn}, {"all", TrainOnEos::kAll}, {"last", TrainOnEos::kLast}, {"none", TrainOnEos::kNone}};

}  // namespace

std::span<const Word<ExcessLength>> words_of(ExcessLength) { return kExcessLengths; }
std::span<const Word<PackingStrategy>> words_of(PackingStrategy) { return kPackingStrategies; }
std::span<const Word<PackingScope>> words_of(PackingScope) { return kPackingScopes; }
std::span<const Word<MicroBatchOrder>> words_of(MicroBatchOrder) { return kMicroBatchOrders; }
std::span<const Word<SamplingStrategy>> words_of(SamplingStrategy) { return kSamplings; }
std::span<const Word<TruncationMode>> words_of(TruncationMode) { return kTruncationModes; }
std::span<const Word<TrainOnEos>> words_of(TrainOnEos) { return kTrainOnEos; }

}  // namespace spillway::config
