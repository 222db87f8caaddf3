// SPDX-License-Identifier: Apache-2.0
// What is told of tensors, and how those of two files differ.
#include <cmath>

#include "core/torch.h"
#include "inspect/inspect.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

std::string type_name(at::ScalarType type) {
  static const std::map<at::ScalarType, std::string> names = {{at::kFloat, "float32"},
                                                              {at::kDouble, "float64"},
                                                              {at::kHalf, "float16"},
                                                              {at::kLong, "int64"},
                                                              {at::kInt, "int32"},
                                                              {at::kByte, "uint8"}};
  const auto known = names.find(type);
  return known == names.end() ? lower(c10::toString(type)) : known->second;
}

// JSON has no infinity.
Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json describe_tensor(const std::string& name, const at::Tensor& tensor) {
  Json row = {{"name", name},
              {"dtype", type_name(tensor.scalar_type())},
              {"shape", tensor.sizes().vec()},
              {"values", tensor.numel()}};
  const at::Tensor all = tensor.flatten().to(at::kDouble);
  const at::Tensor good = all.masked_select(all.isfinite());
  const bool any = good.numel() > 0;
  row["norm"] = any ? finite(good.norm().item<double>()) : Json();
  row["min"] = any ? finite(good.min().item<double>()) : Json();
  row["max"] = any ? finite(good.max().item<double>()) : Json();
  row["non_finite"] = all.numel() - good.numel();
  return row;
}

Json config_difference(const Json& a, const Json& b) {
  Json differing = Json::object();
  for (const auto& [key, value] : a.items()) {
    const Json other = b.contains(key) ? b[key] : Json();
    if (value != other) differing[key] = {value, other};
  }
  for (const auto& [key, value] : b.items()) {
    if (!a.contains(key)) differing[key] = {Json(), value};
  }
  return differing;
}

}  // namespace

Json tensor_rows(const std::map<std::string, at::Tensor>& tensors) {
  Json rows = Json::array();
  for (const auto& [name, tensor] : tensors) rows.push_back(describe_tensor(name, tensor));
  return rows;
}

Json part_rows(const Json& rows) {
  Json parts = Json::object();
  for (const Json& row : rows) {
    const std::string name = row["name"];
    const std::string part = name.substr(0, name.find('/'));
    if (!parts.contains(part)) parts[part] = {{"tensors", 0}, {"values", 0}, {"non_finite", 0}};
    Json& sum = parts[part];
    sum["tensors"] = sum["tensors"].get<int64_t>() + 1;
    for (const char* key : {"values", "non_finite"})
      sum[key] = sum[key].get<int64_t>() + row[key].get<int64_t>();
  }
  return parts;
}

Json difference_of(const FileContent& a, const FileContent& b) {
  Json missing_in_a = Json::array(), missing_in_b = Json::array();
  Json shapes = Json::object(), values = Json::object();
  int64_t equal = 0;
  for (const auto& [name, tensor] : a.tensors) {
    const auto at = b.tensors.find(name);
    if (at == b.tensors.end()) {
      missing_in_b.push_back(name);
    } else if (at->second.sizes() != tensor.sizes()) {
      shapes[name] = {tensor.sizes().vec(), at->second.sizes().vec()};
    } else if (at->second.scalar_type() == tensor.scalar_type() && at->second.equal(tensor)) {
      ++equal;
    } else {
      const at::Tensor first = tensor.to(at::kDouble);
      const at::Tensor apart = at->second.to(at::kDouble) - first;
      const double norm = first.norm().item<double>();
      const bool any = apart.numel() > 0;
      values[name] = {{"max_abs", any ? finite(apart.abs().max().item<double>()) : Json(0)},
                      {"relative", any ? finite(apart.norm().item<double>() / norm) : Json(0)}};
    }
  }
  for (const auto& [name, tensor] : b.tensors) {
    if (a.tensors.count(name) == 0) missing_in_a.push_back(name);
  }
  return {{"config", config_difference(a.config, b.config)},
          {"missing", {{"a", missing_in_a}, {"b", missing_in_b}}},
          {"shape", shapes},
          {"values", values},
          {"equal", equal}};
}

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

void print_names(const std::string& title, const Json& names) {
  for (const Json& name : names) print_text("{:<14}{}\n", title, text_of(name));
}

}  // namespace

void print_tensors(const Json& rows, const Json& parts) {
  if (rows.empty()) return;
  fmt::print("\npart                       tensors        values  non-finite\n");
  for (const auto& [part, sum] : parts.items()) {
    print_text("{:<24}{:>10}{:>14}{:>12}\n",
               part,
               text_of(sum["tensors"]),
               text_of(sum["values"]),
               text_of(sum["non_finite"]));
  }
  fmt::print(
      "\ntensor                                              dtype     shape                   "
      "   norm        min        max     bad\n");
  for (const Json& row : rows) {
    print_text("{:<51} {:<10}{:<20}{:>11}{:>11}{:>11}{:>8}\n",
               text_of(row["name"]),
               text_of(row["dtype"]),
               shape_text(row["shape"]),
               value_text(row["norm"]),
               value_text(row["min"]),
               value_text(row["max"]),
               text_of(row["non_finite"]));
  }
}

void print_difference(Json difference) {
  for (const auto& [key, both] : difference["config"].items())
    print_text("{:<14}{} {} -> {}\n", "config", key, both[0].dump(), both[1].dump());
  print_names("only in B", difference["missing"]["a"]);
  print_names("only in A", difference["missing"]["b"]);
  for (const auto& [name, both] : difference["shape"].items())
    print_text("{:<14}{} {} -> {}\n", "shape", name, shape_text(both[0]), shape_text(both[1]));
  for (const auto& [name, apart] : difference["values"].items()) {
    print_text("{:<14}{} by at most {}, relative {}\n",
               "values",
               name,
               value_text(apart["max_abs"]),
               value_text(apart["relative"]));
  }
  if (difference.contains("same_bytes")) {
    print_text("{:<14}{}\n", "bytes", difference["same_bytes"] == true ? "the same" : "others");
  } else {
    print_text("{:<14}{}\n", "equal", counted(difference["equal"].get<int64_t>(), "tensor"));
  }
}

}  // namespace gantrain
