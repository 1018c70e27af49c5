#include "base/local_time.h"

#include <fmt/format.h>

namespace spillway {
namespace {

constexpr const char* kFormat = "%Y-%m-%dT%H:%M:%S";
constexpr int kFirstYear = 1900;  // of std::tm

}  // namespace

std::tm local_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return local;
}

std::string time_text(const std::tm& time) {
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", time.tm_year + kFirstYear, time.tm_mon + 1, time.tm_mday,
                     time.tm_hour, time.tm_min, time.tm_sec);
}

std::optional<std::tm> time_from_text(std::string_view text) {
  const std::string copy(text);
  std::tm time{};
  const char* end = strptime(copy.c_str(), kFormat, &time);
  if (end == nullptr || *end != '\0') return std::nullopt;
  // Days of the week and of the year follow from the date, whatever the zone.
  std::tm complete = time;
  const std::time_t seconds = timegm(&complete);
  if (seconds == -1 || time_text(complete) != time_text(time)) return std::nullopt;  // February 30
  time.tm_wday = complete.tm_wday;
  time.tm_yday = complete.tm_yday;
  time.tm_isdst = -1;
  return time;
}

}  // namespace spillway
