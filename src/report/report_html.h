// report.html: the document of report_json.h as pictures, in one file that needs no network.
//
// The page is written in page/; CMake puts its files into the program.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace spillway {

// Names in the report may hold anything: they reach the page as JSON that cannot end its element, and its script sets
// them as text only.
[[nodiscard]] std::string report_html(const nlohmann::ordered_json& report);

}  // namespace spillway
