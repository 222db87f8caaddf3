// SPDX-License-Identifier: Apache-2.0
#include "doctor_facts.h"

#include <fmt/format.h>

namespace gantrain {

namespace {

// {"name": "eth0", "state": "up"} -> "eth0, state up"; the first member says what it is.
std::string in_words(const Json& value) {
  if (!value.is_object()) return text_of(value);
  std::string words;
  for (const auto& [name, member] : value.items()) {
    if (text_of(member).empty()) continue;
    words += words.empty() ? text_of(member) : fmt::format(", {} {}", name, text_of(member));
  }
  return words;
}

void print_fact(const std::string& name, const Json& value) {
  const Json rows = value.is_array() ? value : Json::array({value});
  if (rows.empty()) fmt::print("{:<15} none\n", name);
  for (size_t i = 0; i < rows.size(); ++i)
    fmt::print("{:<15} {}\n", i == 0 ? name : "", in_words(rows[i]));
}

}  // namespace

void print_facts(const Json& facts, bool json) {
  if (json) {
    fmt::print("{}\n", facts.dump());
    return;
  }
  for (const auto& [name, value] : facts.items()) print_fact(name, value);
}

}  // namespace gantrain
