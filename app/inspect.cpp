// SPDX-License-Identifier: Apache-2.0
#include "inspect_content.h"
#include "inspect_tensors.h"
#include "trainer_verbs.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace {

std::string value_text(const Json& value) {
  if (value.is_null()) return "-";
  return value.is_number_float() ? fmt::format("{:.4g}", value.get<double>()) : text_of(value);
}

std::string shape_text(const Json& shape) {
  std::vector<std::string> sides;
  for (const Json& side : shape) sides.push_back(text_of(side));
  return "[" + join(sides, ", ") + "]";
}

void print_facts(const Json& facts, const std::string& indent) {
  for (const auto& [key, value] : facts.items()) {
    if (value.is_object()) {
      if (value.empty()) continue;
      fmt::print("{}{}\n", indent, key);
      print_facts(value, indent + "  ");
    } else if (value.is_array()) {
      if (value.empty()) continue;
      std::vector<std::string> parts;
      for (const Json& one : value) parts.push_back(text_of(one));
      fmt::print("{}{:<13} {}\n", indent, key, join(parts, ", "));
    } else {
      fmt::print("{}{:<13} {}\n", indent, key, text_of(value));
    }
  }
}

void print_tensors(const Json& rows, const Json& parts) {
  if (rows.empty()) return;
  fmt::print("\n{:<24}{:>10}{:>14}{:>12}\n", "part", "tensors", "values", "non-finite");
  for (const auto& [part, sum] : parts.items()) {
    fmt::print("{:<24}{:>10}{:>14}{:>12}\n",
               part,
               text_of(sum["tensors"]),
               text_of(sum["values"]),
               text_of(sum["non_finite"]));
  }
  fmt::print("\n{:<52}{:<10}{:<20}{:>11}{:>11}{:>11}{:>8}\n",
             "tensor",
             "dtype",
             "shape",
             "norm",
             "min",
             "max",
             "bad");
  for (const Json& row : rows) {
    fmt::print("{:<51} {:<10}{:<20}{:>11}{:>11}{:>11}{:>8}\n",
               text_of(row["name"]),
               text_of(row["dtype"]),
               shape_text(row["shape"]),
               value_text(row["norm"]),
               value_text(row["min"]),
               value_text(row["max"]),
               text_of(row["non_finite"]));
  }
}

int show(const InspectFileRequest& request) {
  const FileContent content = read_content(request.path);
  const Json rows = tensor_rows(content.tensors), parts = part_rows(rows);
  if (request.json) {
    const Json line = {{"path", request.path},
                       {"kind", content.kind},
                       {"facts", content.facts},
                       {"config", content.config},
                       {"parts", parts},
                       {"tensors", rows}};
    fmt::print("{}\n", line.dump());
    return 0;
  }
  fmt::print("{}: {}\n", request.path, content.kind);
  print_facts(content.facts, "");
  print_tensors(rows, parts);
  if (!content.next.empty()) info("next    {}", content.next);
  return 0;
}

void print_names(const std::string& title, const Json& names) {
  for (const Json& name : names) fmt::print("{:<14}{}\n", title, text_of(name));
}

// Of what has no tensors and no configuration, the facts are compared, and the bytes.
void compare_facts(const FileContent& a,
                   const FileContent& b,
                   const InspectFileRequest& request,
                   Json& difference) {
  if (!a.tensors.empty() || !b.tensors.empty() || !a.config.empty() || !b.config.empty()) return;
  for (const FileContent* one : {&a, &b}) {
    for (const auto& [key, value] : one->facts.items()) {
      const Json there = a.facts.value(key, Json()), here = b.facts.value(key, Json());
      if (there != here) difference["config"][key] = {there, here};
    }
  }
  std::error_code error;
  const bool files = std::filesystem::is_regular_file(request.path, error) &&
                     std::filesystem::is_regular_file(request.other, error);
  if (files) difference["same_bytes"] = read_file(request.path) == read_file(request.other);
}

int show_difference(const InspectFileRequest& request) {
  const FileContent a = read_content(request.path), b = read_content(request.other);
  Json difference = difference_of(a, b);
  compare_facts(a, b, request, difference);
  if (request.json) {
    fmt::print("{}\n", difference.dump());
    return 0;
  }
  fmt::print("A {}: {}\nB {}: {}\n", request.path, a.kind, request.other, b.kind);
  for (const auto& [key, both] : difference["config"].items())
    fmt::print("{:<14}{} {} -> {}\n", "config", key, both[0].dump(), both[1].dump());
  print_names("only in B", difference["missing"]["a"]);
  print_names("only in A", difference["missing"]["b"]);
  for (const auto& [name, both] : difference["shape"].items())
    fmt::print("{:<14}{} {} -> {}\n", "shape", name, shape_text(both[0]), shape_text(both[1]));
  for (const auto& [name, apart] : difference["values"].items()) {
    fmt::print("{:<14}{} by at most {}, relative {}\n",
               "values",
               name,
               value_text(apart["max_abs"]),
               value_text(apart["relative"]));
  }
  if (difference.contains("same_bytes")) {
    fmt::print("{:<14}{}\n", "bytes", difference["same_bytes"] == true ? "the same" : "others");
  } else {
    fmt::print("{:<14}{} tensors\n", "equal", text_of(difference["equal"]));
  }
  return 0;
}

}  // namespace

int inspect_file(const InspectFileRequest& request) {
  return request.other.empty() ? show(request) : show_difference(request);
}

}  // namespace gantrain
