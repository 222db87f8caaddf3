// SPDX-License-Identifier: Apache-2.0
#include "launch/nodelist.h"

#include <algorithm>

#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr size_t kMaxHosts = 65536;

[[noreturn]] void refuse(std::string_view text, std::string_view why) {
  fail(Exit::kEnvironment, "cannot read the Slurm list \"{}\": {}", text, why);
}

int64_t digits(std::string_view text, std::string_view whole) {
  const bool plain =
      !text.empty() && text.size() <= 12 &&
      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!plain) refuse(whole, fmt::format("\"{}\" is not a number", text));
  return *parse_int(text);
}

// "1,08-10" -> "1" "08" "09" "10"
std::vector<std::string> expand_ranges(std::string_view ranges, std::string_view whole) {
  std::vector<std::string> all;
  for (const std::string& range : split(ranges, ',')) {
    const size_t dash = range.find('-');
    const std::string low = range.substr(0, dash);
    const int64_t first = digits(low, whole);
    const int64_t last = dash == std::string::npos ? first : digits(range.substr(dash + 1), whole);
    if (last < first) refuse(whole, fmt::format("range \"{}\" goes down", range));
    if (last - first >= static_cast<int64_t>(kMaxHosts - std::min(all.size(), kMaxHosts)))
      refuse(whole, "more than 65536 hosts");
    for (int64_t i = first; i <= last; ++i) all.push_back(fmt::format("{:0{}}", i, low.size()));
  }
  return all;
}

// Reads one item of the list. Its grammar is prefix {"[" ranges "]" prefix}; no prefix follows the
// last bracket.
void expand_item(std::string_view item, std::string_view whole, std::vector<std::string>& hosts) {
  std::vector<std::string> names{""};
  std::string_view rest = item;
  while (!rest.empty()) {
    const size_t open = rest.find('[');
    const std::string_view prefix = rest.substr(0, open);
    if (prefix.find(']') != std::string_view::npos) refuse(whole, "\"]\" without \"[\"");
    if (open == std::string_view::npos && rest.size() != item.size()) {
      refuse(whole, "text after the last bracket");
    }
    std::vector<std::string> endings{""};
    if (open != std::string_view::npos) {
      const size_t close = rest.find(']', open);
      if (close == std::string_view::npos) refuse(whole, "\"[\" without \"]\"");
      endings = expand_ranges(rest.substr(open + 1, close - open - 1), whole);
      rest = rest.substr(close + 1);
    } else {
      rest = {};
    }
    if (names.size() * endings.size() + hosts.size() > kMaxHosts) {
      refuse(whole, "more than 65536 hosts");
    }
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      for (const std::string& ending : endings) {
        longer.push_back(fmt::format("{}{}{}", name, prefix, ending));
      }
    }
    names = std::move(longer);
  }
  hosts.insert(hosts.end(), names.begin(), names.end());
}

}  // namespace

std::vector<std::string> parse_nodelist(std::string_view text) {
  std::vector<std::string> hosts;
  size_t begin = 0;
  bool inside = false;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '[') inside = true;
    if (i < text.size() && text[i] == ']') inside = false;
    const bool ends = i == text.size() || (!inside && (text[i] == ',' || text[i] == ' '));
    if (!ends) continue;
    if (i > begin) expand_item(text.substr(begin, i - begin), text, hosts);
    begin = i + 1;
  }
  if (hosts.empty()) refuse(text, "no host in it");
  return hosts;
}

std::vector<int64_t> parse_tasks_per_node(std::string_view text) {
  std::vector<int64_t> tasks;
  for (const std::string& item : split(text, ',')) {
    const size_t open = item.find("(x");
    const int64_t count = digits(std::string_view(item).substr(0, open), text);
    int64_t nodes = 1;
    if (open != std::string::npos) {
      if (!ends_with(item, ")")) refuse(text, "\"(x\" without \")\"");
      nodes = digits(std::string_view(item).substr(open + 2, item.size() - open - 3), text);
    }
    if (tasks.size() + static_cast<size_t>(nodes) > kMaxHosts)
      refuse(text, "more than 65536 nodes");
    tasks.insert(tasks.end(), static_cast<size_t>(nodes), count);
  }
  return tasks;
}

}  // namespace gantrain
