#include "hub/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/sizes.h"
#include "io/file.h"

namespace spillway::hub {
namespace {

struct ContextFree {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

class Digest {
 public:
  explicit Digest(DigestKind kind) : context_(EVP_MD_CTX_new()) {
    check(context_ != nullptr &&
          EVP_DigestInit_ex(context_.get(), kind == DigestKind::kSha256 ? EVP_sha256() : EVP_sha1(), nullptr) == 1);
  }
  void add(std::span<const std::byte> bytes) {
    check(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
  }
  [[nodiscard]] std::string text() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digits{};
    unsigned count = 0;
    check(EVP_DigestFinal_ex(context_.get(), digits.data(), &count) == 1);
    std::string result;
    for (unsigned i = 0; i < count; ++i) result += fmt::format("{:02x}", digits[i]);
    return result;
  }

 private:
  static void check(bool done) {
    if (!done) throw machine_error("libcrypto", "expected a digest, got an error; see to its installation");
  }

  std::unique_ptr<EVP_MD_CTX, ContextFree> context_;
};

}  // namespace

DigestKind digest_kind(std::string_view etag) {
  constexpr size_t kSha256Digits = 64, kSha1Digits = 40;
  if (etag.find_first_not_of("0123456789abcdef") != std::string_view::npos) return DigestKind::kNone;
  if (etag.size() == kSha256Digits) return DigestKind::kSha256;
  return etag.size() == kSha1Digits ? DigestKind::kGitBlob : DigestKind::kNone;
}

std::string file_digest(const std::filesystem::path& path, DigestKind kind, const std::function<bool()>& is_stopped) {
  const ReadFile file(path);
  Digest digest(kind);
  if (kind == DigestKind::kGitBlob) {
    std::string head = fmt::format("blob {}", file.size());
    head += '\0';
    digest.add(std::as_bytes(std::span(head)));
  }
  auto buffer = make_vector<std::byte>(std::min(file.size(), kMiB));
  for (int64_t at = 0; at < file.size();) {
    if (is_stopped()) return {};
    const auto now = first_of(buffer, std::min(std::ssize(buffer), file.size() - at));
    file.read(at, now);
    digest.add(now);
    at += std::ssize(now);
  }
  return digest.text();
}

}  // namespace spillway::hub
