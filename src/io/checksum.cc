#include "io/checksum.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <new>

namespace spillway {

struct Checksum::State {
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> xxh3{XXH3_createState()};
};

Checksum::Checksum() : state_(std::make_unique<State>()) {
  if (!state_->xxh3) throw std::bad_alloc();
  XXH3_64bits_reset(state_->xxh3.get());
}
Checksum::~Checksum() = default;
Checksum::Checksum(Checksum&&) noexcept = default;

void Checksum::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(state_->xxh3.get(), bytes.data(), bytes.size());
}

uint64_t Checksum::value() const { return XXH3_64bits_digest(state_->xxh3.get()); }
std::string Checksum::text() const { return fmt::format("{:016x}", value()); }

Hash128 hash_128(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

std::string checksum_text(std::span<const std::byte> bytes) {
  Checksum sum;
  sum.add(bytes);
  return sum.text();
}

}  // namespace spillway
