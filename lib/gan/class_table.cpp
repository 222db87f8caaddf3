// SPDX-License-Identifier: Apache-2.0
#include "gan/class_table.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "util/csv.h"
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

// The classes by their names where all of these are whole numbers, but other ones than their places
// in the table; else nothing.
std::multimap<int64_t, int64_t> labels_by_number(int64_t classes, const ClassTable& table) {
  std::multimap<int64_t, int64_t> labels;
  if (static_cast<int64_t>(table.size()) != classes || are_unnamed(table)) return labels;
  for (int64_t label = 0; label < classes; ++label) {
    const auto number = parse_int(table[static_cast<size_t>(label)].name);
    if (!number) return {};
    labels.emplace(*number, label);
  }
  return labels;
}

std::string choices(int64_t classes, const ClassTable& table) {
  const auto by_number = labels_by_number(classes, table);
  if (by_number.empty())
    return fmt::format("a name, a number from 0 to {}, a range like 0-2, or all", classes - 1);
  return fmt::format("a name, a range of names like {}-{}, or all",
                     by_number.begin()->first,
                     by_number.rbegin()->first);
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
       "--class {}: {} is no class of this model: {}{}{}{}",
       text,
       part.empty() ? "\"\"" : part,
       choices(classes, table),
       first,
       known.size() > kShown ? ", ..." : "",
       did_you_mean(part, known));
}

}  // namespace

namespace {

ClassTable rows_from_json(const Json& json, const std::string& source) {
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

NumberRange range_from_json(const Json& row, const std::string& source) {
  for (const char* key : {"least", "mean", "most"}) {
    if (!row.contains(key) || !row[key].is_number())
      fail(Exit::kInput, "{}: an attribute has no number \"{}\"", source, key);
  }
  return {.least = row["least"],
          .mean = row["mean"],
          .most = row["most"],
          .yes_or_no = row.contains("yes_or_no") && row["yes_or_no"] == true};
}

std::vector<float> example_from_json(const Json& json, size_t numbers, const std::string& source) {
  std::vector<float> example;
  bool sound = json.is_array() && json.size() == numbers;
  for (size_t k = 0; sound && k < numbers; ++k) {
    sound = json[k].is_number();
    if (sound) example.push_back(json[k].get<float>());
    sound = sound && std::isfinite(example.back());
  }
  if (!sound) fail(Exit::kInput, "{}: an example is not a list of {} numbers", source, numbers);
  return example;
}

// The number that a name or a place stands for.
size_t number_named(const std::string& flag,
                    const std::string& name,
                    int64_t numbers,
                    const ClassTable& table) {
  if (const auto named = label_named(name, table)) return static_cast<size_t>(*named);
  const auto place = parse_int(name);
  if (place && *place >= 0 && *place < numbers) return static_cast<size_t>(*place);
  std::vector<std::string> known;
  for (const ClassRow& row : table) known.push_back(row.name);
  fail(Exit::kUsage,
       "{}: {} is no number of this model's labels: a name, or a place from 0 to {}{}{}{}",
       flag,
       name,
       numbers - 1,
       known.empty() ? "" : "; ",
       join({known.begin(), known.begin() + static_cast<long>(std::min<size_t>(known.size(), 8))},
            ", "),
       did_you_mean(name, known));
}

}  // namespace

bool are_unnamed(const ClassTable& table) {
  for (size_t label = 0; label < table.size(); ++label) {
    if (table[label].name != std::to_string(label)) return false;
  }
  return true;
}

Json to_json(const ClassTable& table) {
  Json rows = Json::array();
  for (const ClassRow& row : table)
    rows.push_back({{"name", row.name}, {"pictures", row.pictures}});
  if (!table.vectors()) return rows;
  for (size_t k = 0; k < table.size(); ++k) {
    const NumberRange& range = table.ranges[k];
    rows[k]["least"] = range.least;
    rows[k]["mean"] = range.mean;
    rows[k]["most"] = range.most;
    rows[k]["yes_or_no"] = range.yes_or_no;
  }
  return {{"attributes", rows}, {"examples", table.examples}};
}

ClassTable classes_from_json(const Json& json, const std::string& source) {
  if (!json.is_object()) return rows_from_json(json, source);
  if (!json.contains("attributes"))
    fail(Exit::kInput, "{}: neither classes nor \"attributes\"", source);
  ClassTable table = rows_from_json(json["attributes"], source);
  for (const Json& row : json["attributes"]) table.ranges.push_back(range_from_json(row, source));
  if (!json.contains("examples") || !json["examples"].is_array()) return table;
  for (const Json& example : json["examples"])
    table.examples.push_back(example_from_json(example, table.size(), source));
  return table;
}

std::vector<float> vector_of_text(const std::string& flag,
                                  const std::string& text,
                                  int64_t numbers,
                                  const ClassTable& table) {
  const ClassTable& known = static_cast<int64_t>(table.size()) == numbers ? table : ClassTable{};
  std::vector<float> vector(static_cast<size_t>(numbers), 0);
  for (size_t k = 0; k < known.ranges.size(); ++k)
    vector[k] = static_cast<float>(known.ranges[k].usual());
  const auto pairs = parse_assignments(text);
  if (!pairs) {
    fail(Exit::kUsage,
         "{} {}: a file (.csv, .npy) or numbers by name are expected, like red=1,size=0.3",
         flag,
         text);
  }
  std::vector<bool> given(vector.size());
  for (const auto& [name, value] : *pairs) {
    const auto number = static_cast<float>(value);
    if (!std::isfinite(number))
      fail(Exit::kUsage, "{} {}: {} is {}, no finite number", flag, text, name, value);
    const size_t place = number_named(flag + " " + text, name, numbers, known);
    if (given[place]) fail(Exit::kUsage, "{} {}: {} is there twice", flag, text, name);
    given[place] = true;
    vector[place] = number;
  }
  return vector;
}

std::string text_of_vector(const std::vector<float>& numbers, const ClassTable& table) {
  std::vector<std::string> parts;
  for (size_t k = 0; k < numbers.size(); ++k)
    parts.push_back(
        fmt::format("{}={}", k < table.size() ? table[k].name : std::to_string(k), numbers[k]));
  return join(parts, ",");
}

std::vector<int64_t> parse_classes(const std::string& text,
                                   int64_t classes,
                                   const ClassTable& table) {
  if (const auto whole = label_named(text, table)) return {*whole};  // a name may hold a comma
  std::vector<int64_t> labels;
  const auto by_number = labels_by_number(classes, table);
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
    if (first && last && !by_number.empty()) {
      if (!by_number.contains(*first) || !by_number.contains(*last) || *last < *first)
        refuse(text, part, classes, table);
      const auto end = by_number.upper_bound(*last);
      for (auto at = by_number.lower_bound(*first); at != end; ++at) labels.push_back(at->second);
      continue;
    }
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
