// SPDX-License-Identifier: Apache-2.0
#include "gan/class_table.h"

#include <algorithm>

#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr size_t kMostClasses = size_t{1} << 20;

std::optional<int64_t> label_named(const std::string& name, const ClassTable& table) {
  const auto found = std::find_if(
      table.begin(), table.end(), [&](const ClassRow& row) { return row.name == name; });
  if (found == table.end()) return std::nullopt;
  return found - table.begin();
}

[[noreturn]] void refuse(const std::string& text,
                         const std::string& part,
                         int64_t classes,
                         const ClassTable& table) {
  std::vector<std::string> known;
  for (const ClassRow& row : table) known.push_back(row.name);
  std::string first;
  constexpr size_t kShown = 8;
  for (size_t i = 0; i < known.size() && i < kShown; ++i) first += (i ? ", " : "; ") + known[i];
  fail(Exit::kUsage,
       "--class {}: {} is no class of this model: a name, a number from 0 to {}, a range like 0-2, "
       "or all{}{}{}",
       text,
       part.empty() ? "\"\"" : part,
       classes - 1,
       first,
       known.size() > kShown ? ", ..." : "",
       did_you_mean(part, known));
}

}  // namespace

Json to_json(const ClassTable& table) {
  Json rows = Json::array();
  for (const ClassRow& row : table)
    rows.push_back({{"name", row.name}, {"pictures", row.pictures}});
  return rows;
}

ClassTable classes_from_json(const Json& json, const std::string& source) {
  if (!json.is_array() || json.size() > kMostClasses) {
    fail(Exit::kInput, "{}: the classes are not a list of names and numbers of pictures", source);
  }
  ClassTable table;
  for (const Json& row : json) {
    const bool sound = row.is_object() && row.contains("name") && row["name"].is_string() &&
                       row.contains("pictures") && row["pictures"].is_number_integer();
    if (!sound) {
      fail(Exit::kInput,
           "{}: class {} must be an object with \"name\" and \"pictures\"",
           source,
           table.size());
    }
    table.push_back({row["name"].get<std::string>(), row["pictures"].get<int64_t>()});
  }
  return table;
}

std::vector<int64_t> parse_classes(const std::string& text,
                                   int64_t classes,
                                   const ClassTable& table) {
  if (const auto whole = label_named(text, table)) return {*whole};  // a name may hold a comma
  std::vector<int64_t> labels;
  for (const std::string& given : split(text, ',')) {
    const std::string part = trim(given);
    if (const auto named = label_named(part, table)) {
      labels.push_back(*named);
      continue;
    }
    const size_t dash = part.find('-', 1);
    std::optional<int64_t> first = parse_int(part.substr(0, dash));
    std::optional<int64_t> last =
        dash == std::string::npos ? first : parse_int(part.substr(dash + 1));
    if (part == "all") {
      first = 0;
      last = classes - 1;
    }
    if (!first || !last || *first < 0 || *last >= classes || *last < *first) {
      refuse(text, part, classes, table);
    }
    for (int64_t label = *first; label <= *last; ++label) labels.push_back(label);
  }
  return labels;
}

}  // namespace gantrain
