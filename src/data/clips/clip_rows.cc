#include "data/clips/clip_rows.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/sizes.h"
#include "data/clips/clip_files.h"
#include "data/files/row_selection.h"
#include "io/checksum.h"

namespace spillway::data {
namespace {

// The row is `row` of file `file`.
struct RowPlace {
  size_t file = 0;
  int64_t row = 0;
  RowHeader stored;
  ClipHeader header;
};

// Keeps the first frames of values [channels, frames, ...] whose channels have `frames` frames of `plane` values.
void cut_frames(std::vector<float>& values, int64_t frames, int64_t kept, int64_t plane) {
  if (kept == frames) return;
  const int64_t channels = std::ssize(values) / (frames * plane);
  for (int64_t channel = 1; channel < channels; ++channel)
    std::memmove(values.data() + channel * kept * plane, values.data() + channel * frames * plane,
                 static_cast<size_t>(kept * plane) * sizeof(float));
  resize(values, channels * kept * plane);
}

void add(Checksum& sum, std::span<const int64_t> numbers) { sum.add(std::as_bytes(numbers)); }

}  // namespace

struct ClipRows::State {
  PageCursors cursors;
  ClipDemands demands;
  int64_t num_latent_t = 0;
  std::vector<std::unique_ptr<ClipFile>> files;
  std::vector<RowPlace> rows;  // each once
  std::vector<size_t> order;   // of them, with those that a weight repeats
  std::string checksum;

  void add_dataset(const DatasetConfig& config);
  void add_file(const std::filesystem::path& path, RowSelection& selection, Checksum& sum);
};

void ClipRows::State::add_dataset(const DatasetConfig& config) {
  Checksum sum;
  RowSelection selection(config);
  for (const std::filesystem::path& path : clip_files(config)) add_file(path, selection, sum);
  checksum += sum.text();
}

void ClipRows::State::add_file(const std::filesystem::path& path, RowSelection& selection, Checksum& sum) {
  std::unique_ptr<ClipFile> file = open_clip_file(path, cursors);
  const std::string name = path.filename().string();
  sum.add(std::as_bytes(std::span(name)));
  const int64_t bytes = ReadFile(path).size();
  add(sum, {&bytes, 1});
  std::vector<RowHeader> headers = file->headers();
  for (int64_t at = 0; at < std::ssize(headers); ++at) {
    RowHeader& stored = nth(headers, at);
    const ClipHeader header = check_row(stored, demands, file->names(), file->where(at), num_latent_t);
    const std::optional<int64_t> copies = selection.next();
    if (!copies) continue;
    const ClipShape& shape = header.latents;
    add(sum, std::array{*copies, shape.channels, shape.frames, shape.height, shape.width, header.text_rows,
                        header.image_rows});
    if (*copies == 0) continue;
    append_repeated(order, *copies, rows.size());
    rows.push_back({.file = files.size(), .row = at, .stored = std::move(stored), .header = header});
  }
  files.push_back(std::move(file));
}

ClipRows::ClipRows(const std::vector<DatasetConfig>& datasets, const ClipDemands& demands, std::string_view key,
                   int64_t num_latent_t)
    : state_(std::make_unique<State>()) {
  state_->demands = demands;
  state_->num_latent_t = num_latent_t;
  for (const DatasetConfig& config : datasets) state_->add_dataset(config);
  if (state_->order.empty()) throw input_error(key, "expected rows of video latents, got none; correct the paths");
  const std::string all = std::exchange(state_->checksum, {});
  state_->checksum = checksum_text(std::as_bytes(std::span(all)));
}

ClipRows::~ClipRows() = default;
ClipRows::ClipRows(ClipRows&&) noexcept = default;
ClipRows& ClipRows::operator=(ClipRows&&) noexcept = default;

int64_t ClipRows::size() const { return std::ssize(state_->order); }

const ClipHeader& ClipRows::header(int64_t row) const { return state_->rows[nth(state_->order, row)].header; }

std::string ClipRows::where(int64_t row) const {
  const RowPlace& place = state_->rows[nth(state_->order, row)];
  return state_->files[place.file]->where(place.row);
}

Clip ClipRows::read(int64_t row) const {
  const RowPlace& place = state_->rows[nth(state_->order, row)];
  const ClipFile& file = *state_->files[place.file];
  const auto read = [&](RowTensor which) {
    const StoredValues& values = place.stored.tensors[which];
    return values.is_there ? file.read(place.row, which, values) : std::vector<float>();
  };
  Clip clip{.header = place.header};
  clip.latents = read(kLatentsTensor);
  clip.text = read(kTextTensor);
  clip.image = read(kImageTensor);
  clip.first_frame = read(kFirstFrameTensor);
  clip.noise = read(kNoiseTensor);
  const ClipShape& shape = place.header.latents;
  const int64_t frames = stored_frames(place.stored.tensors[kLatentsTensor]);
  for (std::vector<float>* values : {&clip.latents, &clip.first_frame, &clip.noise}) {
    if (!values->empty()) cut_frames(*values, frames, shape.frames, shape.height * shape.width);
  }
  if (place.stored.timestep) clip.timestep = static_cast<float>(*place.stored.timestep);
  return clip;
}

std::string ClipRows::checksum() const { return state_->checksum; }

const ClipDemands& ClipRows::demands() const { return state_->demands; }

}  // namespace spillway::data
