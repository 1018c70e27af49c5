// report.html: the document of report_json.h as pictures, in one file that works without a network.
//
// The page is written in page/; CMake puts its files into the program.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace spillway {

// Returns the page. Names in the report may be any text: they are embedded as JSON that cannot end its element, and the
// page's script inserts them as text only.
[[nodiscard]] std::string report_html(const nlohmann::ordered_json& report);

}  // namespace spillway
