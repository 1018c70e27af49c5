// Measures the preparation of data: packing rows into lines, and tokenising text on one thread and on many.
//
//   bench_data pack [--rows N] [--length N]
//   bench_data tokenize --model FOLDER --file FILE.jsonl [--threads N]
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "base/parallel.h"
#include "base/random.h"
#include "data/dataset.h"
#include "data/packing/pack.h"

using namespace spillway;
using namespace spillway::data;

namespace {

template <typename Body>
double seconds_of(const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

std::string option(int argc, char** argv, const char* name, const std::string& otherwise) {
  for (int i = 2; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], name) == 0) return argv[i + 1];
  }
  return otherwise;
}

// Rows that are only as long as they say: packing looks at no token.
class LengthsAlone final : public RowTokens {
 public:
  LengthsAlone(int64_t rows, int64_t capacity, int64_t longest) : RowTokens(kTextColumns) {
    offsets_.reserve(static_cast<size_t>(rows) + 1);
    RandomStream random(1, 0);
    // Exponential, as conversations are, about four rows per line.
    for (int64_t i = 0, end = 0; i <= rows; ++i) {
      offsets_.push_back(end);
      const double length = -std::log(1 - static_cast<double>(random.uniform())) * static_cast<double>(capacity) / 4;
      end += std::min(longest, 1 + static_cast<int64_t>(length));
    }
    offsets = offsets_;
  }

 private:
  std::vector<int64_t> offsets_;
};

int bench_pack(int64_t rows, int64_t capacity) {
  const auto table_of = [&](int64_t longest) {
    return RowTable(std::shared_ptr<const RowTokens>(std::make_shared<LengthsAlone>(rows, capacity, longest)));
  };
  const RowTable any = table_of(int64_t{1} << 30), none_too_long = table_of(capacity);
  fmt::print("{} rows, lines of {} tokens, {:.0f} MiB resident before packing\n", rows, capacity, peak_mib());
  struct Case {
    const char* name;
    PackOptions options;
    const RowTable& rows;
  };
  for (const Case& c :
       {Case{"bfd, 1000 rows at a time", {PackingStrategy::kBfd, capacity, 1000, {}}, any},
        Case{"bfd_split, 1000 rows at a time", {PackingStrategy::kBfdSplit, capacity, 1000, {}}, any},
        Case{"wrapped, 1000 rows at a time", {PackingStrategy::kWrapped, capacity, 1000, {}}, any},
        Case{"bfd, all rows", {PackingStrategy::kBfd, capacity, 0, {}}, any},
        Case{"bfd_split, all rows", {PackingStrategy::kBfdSplit, capacity, 0, {}}, any},
        Case{"sample_packing, all rows", {PackingStrategy::kFirstFit, capacity, 0, {}}, none_too_long}}) {
    Lines lines;
    const double seconds = seconds_of([&] { lines = pack(c.rows, c.options); });
    fmt::print("{:32} {:6.2f} s {:6.2f} million rows/s  {:9} lines  {:5.2f} % full  peak {:.0f} MiB\n", c.name, seconds,
               static_cast<double>(rows) / seconds / 1e6, lines.size(),
               100 * static_cast<double>(count_tokens(lines.pieces)) / static_cast<double>(lines.size() * capacity),
               peak_mib());
  }
  return 0;
}

int bench_tokenize(const std::string& model, const std::string& file, int threads) {
  const text::Tokenizer tokenizer = text::Tokenizer::load(model);
  DatasetConfig config;
  config.path = file;
  config.type = {true, "completion"};
  const RowOptions options{.sequence_len = 1 << 20};
  const auto bytes = static_cast<double>(std::filesystem::file_size(file));
  std::vector<int> counts = {1};
  if (threads > 1) counts.push_back(threads);
  for (const int count : counts) {
    int64_t tokens = 0;
    const double seconds = seconds_of(
        [&] { tokens = load_datasets(std::span(&config, 1), options, tokenizer, {.threads = count}).summary.tokens; });
    fmt::print("{} threads: {:.2f} s, {:.2f} MB/s, {:.2f} million tokens/s\n", count, seconds, bytes / seconds / 1e6,
               static_cast<double>(tokens) / seconds / 1e6);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "pack")
    return bench_pack(std::stoll(option(argc, argv, "--rows", "10000000")),
                      std::stoll(option(argc, argv, "--length", "2048")));
  if (what == "tokenize")
    return bench_tokenize(option(argc, argv, "--model", ""), option(argc, argv, "--file", ""),
                          std::stoi(option(argc, argv, "--threads", std::to_string(available_cpus()))));
  fmt::print(stderr, "usage: bench_data pack|tokenize ...\n");
  return 2;
}
