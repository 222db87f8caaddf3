// SPDX-License-Identifier: Apache-2.0
#include "command/cli.h"

#include <algorithm>
#include <cstdlib>

#include "config/value.h"
#include "launch/where/environment.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
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

namespace {

void check_text(const std::string& text, const std::string& what) {
  const auto dumped = [&](Json::error_handler_t how) {
    return Json(text).dump(-1, ' ', false, how);
  };
  try {
    dumped(Json::error_handler_t::strict);
  } catch (const Json::type_error&) {
    fail(Exit::kUsage,
         "{} {} is not UTF-8: rename the file, or give it a link with another name",
         what,
         dumped(Json::error_handler_t::replace));
  }
}

}  // namespace

void check_text(const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) check_text(argument, "argument");
  for (const auto& [name, value] : current_environment()) {
    if (starts_with(name, "GANTRAIN_")) check_text(value, "environment " + name + " =");
  }
}

std::string command_line() {
  const std::string raw = read_file("/proc/self/cmdline");
  std::string line;
  for (const std::string& word :
       split(std::string_view(raw).substr(0, raw.empty() ? 0 : raw.size() - 1), '\0')) {
    line += (line.empty() ? "" : " ") + shell_quote(word);
  }
  return line;
}

}  // namespace gantrain
