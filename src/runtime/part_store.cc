#include "runtime/part_store.h"

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/sizes.h"

namespace spillway {
namespace {

constexpr std::string_view kEnd = "end";
constexpr int64_t kPieceElems = kMiB;

}  // namespace

// Passes on the elements of this rank's part, and zeros behind them.
class PartStore::PartWriter final : public Writer {
 public:
  PartWriter(std::unique_ptr<Writer> own, const Cut& cut, int rank, int64_t elem_bytes)
      : own_(std::move(own)), cut_(cut), begin_(cut.begin(rank)), end_(cut.end(rank)), elem_bytes_(elem_bytes) {}

  void append(const void* elements, int64_t count) override {
    const int64_t first = std::clamp(begin_, done_, done_ + count), last = std::clamp(end_, done_, done_ + count);
    if (first < last)
      own_->append(static_cast<const std::byte*>(elements) + (first - done_) * elem_bytes_, last - first);
    done_ += count;
    if (done_ < cut_.elems) return;
    const int64_t behind = cut_.part_elems - (end_ - begin_);
    const auto zeros = make_vector<std::byte>(behind * elem_bytes_);
    own_->append(zeros.data(), behind);
  }

 private:
  std::unique_ptr<Writer> own_;
  Cut cut_;
  int64_t begin_, end_, elem_bytes_;
  int64_t done_ = 0;
};

std::unique_ptr<ValueStore::Writer> PartStore::writer(ValueId id) {
  const auto part = parts_.find(id);
  if (part == parts_.end()) return own_.writer(id);
  return std::make_unique<PartWriter>(own_.writer(id), part->second, peers_.rank(),
                                      size_of(graph_.value(id).type.dtype));
}

void PartStore::write(ValueId id, const Visitor& fill) {
  const auto part = parts_.find(id);
  if (part == parts_.end()) return own_.write(id, fill);
  const DType dtype = graph_.value(id).type.dtype;
  const std::unique_ptr<Writer> to = writer(id);
  const int64_t elems = part->second.elems;
  auto piece = make_vector<std::byte>(std::min(elems, kPieceElems) * size_of(dtype));
  for (int64_t first = 0; first < elems; first += kPieceElems) {
    const int64_t count = std::min(kPieceElems, elems - first);
    fill({piece.data(), dtype, {count}}, first);
    to->append(piece.data(), count);
  }
}

void PartStore::read(ValueId id, const Visitor& use) {
  const auto part = parts_.find(id);
  if (part == parts_.end()) return own_.read(id, use);
  if (leads_) {
    are_following_ = false;
    (void)peers_.exchange(fmt::format("{}", id));
  }
  std::vector<std::byte> whole = gather(id, part->second);
  are_following_ = leads_;
  use({whole.data(), graph_.value(id).type.dtype, {part->second.elems}}, 0);
}

std::vector<std::byte> PartStore::gather(ValueId id, const Cut& cut) {
  const int64_t size = size_of(graph_.value(id).type.dtype);
  auto part = make_vector<std::byte>(cut.part_elems * size), whole = make_vector<std::byte>(cut.elems * size);
  std::string error;
  try {
    own_.read(id, [&](const TensorView& piece, int64_t first) {
      std::copy_n(piece.as<const std::byte>(), piece.bytes(), part.data() + first * size);
    });
  } catch (const std::exception& failure) {
    error = failure.what();
  }
  for (const std::string& one : peers_.exchange(error))
    if (!one.empty()) throw MachineError(one);
  peers_.gather(part, whole, cut, size);
  return whole;
}

void PartStore::follow() {
  for (;;) {
    const std::string message = peers_.exchange("").front();
    if (message == kEnd) return;
    const ValueId id = std::stoi(message);
    (void)gather(id, parts_.at(id));
  }
}

void PartStore::end_lead() {
  leads_ = false;
  if (std::exchange(are_following_, false)) (void)peers_.exchange(kEnd);
}

}  // namespace spillway
