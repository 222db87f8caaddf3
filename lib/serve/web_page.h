// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "serve/run_view.h"

namespace gantrain {

// Percent-encodes a run's name for a path of a URL; '/' stays.
std::string url_path(const std::string& name);

// The list of runs as HTML. `folder` is what is said to have no runs where it has none.
std::string list_html(const std::vector<RunView>& runs, const std::string& folder);

// Returns a whole page around what is refreshed, `inner`. It takes style and script from the server
// (/page.css, /page.js); the script asks for `inner` anew where `stamp` is no longer up to date.
// `above` is HTML that stays.
struct WebPage {
  std::string title, above, inner, stamp;
};
std::string web_page(const WebPage& page);

// What stands above a run: the way back and, of a run at work, SAVE and STOP with a field for the
// token, or how to have them where the server has no token. `said` is shown, too.
std::string run_header(const std::string& name,
                       bool running,
                       bool has_token,
                       const std::string& said);

std::string page_style();
std::string page_script();

}  // namespace gantrain
