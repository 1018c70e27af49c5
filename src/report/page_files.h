// The files of page/, which the build embeds into the program (cmake/EmbedText.cmake).
#pragma once

#include <string_view>

namespace spillway {

extern const std::string_view kPageTemplate;  // report.html, with {{style}}, {{data}} and {{script}} in this order
extern const std::string_view kPageStyle;     // report.css
extern const std::string_view kPageScript;    // all scripts, one after another

}  // namespace spillway
