// SPDX-License-Identifier: Apache-2.0
#include "color_flag.h"

#include <algorithm>
#include <cstdlib>

#include "util/color.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr const char* kFlag = "--color";

void obey(const std::string& when) {
  const auto allowed = names(ColorWhen{});
  if (std::find(allowed.begin(), allowed.end(), when) == allowed.end())
    fail(Exit::kUsage, "{} {}: allowed: auto, always, never", kFlag, when);
  ::setenv(kColorVariable, when.c_str(), 1);
}

}  // namespace

void take_color(std::vector<std::string>& arguments) {
  // The words after --complete are another command's.
  if (arguments.size() > 1 && arguments[1] == "--complete") return;
  for (size_t i = 0; i < arguments.size();) {
    const std::string word = arguments[i];
    const auto here = arguments.begin() + static_cast<std::ptrdiff_t>(i);
    if (word == "--no-color") {
      obey("never");
      arguments.erase(here);
      continue;
    }
    const bool alone = word == kFlag;
    if (!alone && !starts_with(word, std::string(kFlag) + "=")) {
      ++i;
      continue;
    }
    if (alone && i + 1 == arguments.size())
      fail(Exit::kUsage, "{} needs a value: auto, always or never", kFlag);
    obey(alone ? arguments[i + 1] : word.substr(word.find('=') + 1));
    arguments.erase(here, here + (alone ? 2 : 1));
  }
}

}  // namespace gantrain
