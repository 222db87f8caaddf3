// SPDX-License-Identifier: Apache-2.0
#include "util/wording.h"

#include <cstdlib>

#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace {

bool ends_with_one_of(std::string_view noun, std::string_view endings) {
  for (const std::string& ending : split(endings, '|')) {
    if (ends_with(noun, ending)) return true;
  }
  return false;
}

}  // namespace

std::string counted(int64_t number, std::string_view noun) {
  if (number == 1) return fmt::format("1 {}", noun);
  if (ends_with_one_of(noun, "copy|entry|query"))
    return fmt::format("{} {}ies", number, noun.substr(0, noun.size() - 1));
  return fmt::format("{} {}{}", number, noun, ends_with_one_of(noun, "s|x|ch|sh") ? "es" : "s");
}

std::string lack_text(int64_t needed_bytes, int64_t free_bytes) {
  constexpr int64_t kMegabyte = 1'000'000;
  return fmt::format("{} MB are needed, the disk has {} MB free",
                     (needed_bytes + kMegabyte - 1) / kMegabyte,
                     free_bytes / kMegabyte);
}

void note_program(std::string_view name) {
  if (!name.empty()) ::setenv(kProgramVariable, shell_quote(name).c_str(), /*overwrite=*/1);
}

std::string program() {
  const std::string noted = environment_variable(kProgramVariable);
  return noted.empty() ? "gantrain" : noted;
}

}  // namespace gantrain
