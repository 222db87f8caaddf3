// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "util/text.h"

namespace gantrain {

// Replaces &, <, >, " and ' by HTML entities, control characters and what is no UTF-8 by U+FFFD.
std::string escape_html(std::string_view text);

// Returns a whole page around `body`, which is HTML. The style and the script are inline, and a
// policy in the head forbids the browser every request.
std::string html_page(const std::string& title, const std::string& body);

// Return pieces of a page. Texts that are named html are HTML already, others are escaped.
std::string html_section(const std::string& title, const std::string& html);  // "" for ""
std::string html_folded(const std::string& title, const std::string& html);   // "" for ""
// What lies side by side where there is room; "" for "".
std::string html_cells(const std::string& html);
// A table of rows that are HTML already, <tr> and <td>.
std::string html_table_of(const std::vector<std::string>& heads, const std::string& rows_html);
std::string html_table(const std::vector<std::string>& heads,
                       const std::vector<std::vector<std::string>>& rows);
// A list of names and values; pairs without a value are left out.
std::string html_facts(const std::vector<std::pair<std::string, std::string>>& facts);

// curves.txt, and what every page has inline: the style sheet, and the script that moves the slider
// of a time-lapse and shows the values below the pointer: style.css and script.js. Paths of curves
// hold pixels; data-x and data-y say which numbers lie at the edges of the plot, whose margins are
// those of charts.cpp.
const EmbeddedFiles& page_files();

}  // namespace gantrain
