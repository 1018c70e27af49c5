#include "report/report_html.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "report/page_files.h"

namespace spillway {
namespace {

// JSON that may stand in an HTML element: no "<" can begin a tag or a comment.
std::string data_for_page(const nlohmann::ordered_json& report) {
  std::string text;
  for (const char c : report.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

// Appends the template up to `mark`, then `content`, and returns what follows the mark.
std::string_view fill(std::string_view page, std::string_view mark, std::string_view content, std::string& out) {
  const size_t at = page.find(mark);
  SPILLWAY_CHECK(at != std::string_view::npos, "report.html has no {}", mark);
  out.append(page.substr(0, at)).append(content);
  return page.substr(at + mark.size());
}

}  // namespace

std::string report_html(const nlohmann::ordered_json& report) {
  std::string html;
  std::string_view rest = kPageTemplate;
  rest = fill(rest, "{{style}}", kPageStyle, html);
  rest = fill(rest, "{{data}}", data_for_page(report), html);
  rest = fill(rest, "{{script}}", kPageScript, html);
  return html.append(rest);
}

}  // namespace spillway
