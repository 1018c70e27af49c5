#include "report/report_html.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

using namespace spillway;

namespace {

size_t count(std::string_view text, std::string_view word) {
  size_t result = 0;
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) ++result;
  return result;
}

// Returns the content of the element that holds the data.
std::string data_of(const std::string& html) {
  constexpr std::string_view kStart = "<script type=\"application/json\" id=\"report\">";
  const size_t begin = html.find(kStart) + kStart.size();
  return html.substr(begin, html.find("</script>", begin) - begin);
}

// Names of elements that are opened and not closed, or closed and not open, outside of scripts and styles.
std::vector<std::string> unbalanced(std::string_view html) {
  const std::set<std::string_view> empty = {"meta", "!DOCTYPE"};
  std::vector<std::string> open, wrong;
  for (size_t at = html.find('<'); at != std::string_view::npos; at = html.find('<', at + 1)) {
    const bool closes = html[at + 1] == '/';
    const size_t begin = at + (closes ? 2 : 1);
    const std::string name(html.substr(begin, html.find_first_of(" >", begin) - begin));
    if (empty.contains(name)) continue;
    if (!closes) {
      open.push_back(name);
      if (name == "script" || name == "style") at = html.find("</" + name + ">", at) - 1;
    } else if (!open.empty() && open.back() == name) {
      open.pop_back();
    } else {
      wrong.push_back(name);
    }
  }
  wrong.insert(wrong.end(), open.begin(), open.end());
  return wrong;
}

}  // namespace

TEST_CASE("the page is whole, well-formed and asks for nothing but itself, of the server that it came from") {
  const std::string html = report_html({{"title", "model"}});
  CHECK(html.starts_with("<!DOCTYPE html>"));
  CHECK(html.ends_with("</html>\n"));
  CHECK(unbalanced(html).empty());
  CHECK(count(html, "fetch(") == 1);
  CHECK(count(html, "fetch(\"report.html\"") == 1);
  CHECK(count(html, "default-src 'none'; connect-src 'self'; style-src") == 1);
  for (const char* word :
       {"{{", "http:", "https:", "//cdn", "@import", "url(http", "src=", "href=", "XMLHttpRequest", "WebSocket"}) {
    CAPTURE(word);
    CHECK(count(html, word) == 0);
  }
}

TEST_CASE("names that look like markup stay data, and come back as they were") {
  for (const std::string& name : {std::string("</script><script>alert(1)</script>"), std::string("<!--<script>"),
                                  std::string("\"'`${x}\\ \n{{script}}"), std::string("\xe2\x80\xa8 ümläut 模型")}) {
    CAPTURE(name);
    const std::string html = report_html({{"title", name}});
    CHECK(count(html, "</script>") == 2);
    CHECK(count(html, "alert(1)</script>") == 0);
    CHECK(unbalanced(html).empty());
    CHECK(nlohmann::json::parse(data_of(html))["title"] == name);
  }
  // Bytes that are no text are replaced, not refused.
  CHECK(nlohmann::json::accept(data_of(report_html({{"title", "\xff\xfe"}}))));
}
