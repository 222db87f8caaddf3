// SPDX-License-Identifier: Apache-2.0
#include "dtype_table.h"

#include "core/torch.h"
#include "util/text.h"

namespace gantrain {

namespace {

// Returns the type of a block's first parameter, or nothing where no parameter's name begins with
// the block's.
std::optional<at::ScalarType> parameter_type(const std::vector<Player*>& players,
                                             const std::string& block) {
  for (const Player* player : players) {
    for (const auto& item : player->network->named_parameters()) {
      if (starts_with(player->name + "." + item.key(), block + "."))
        return item.value().scalar_type();
    }
  }
  return std::nullopt;
}

std::string name_of(at::ScalarType type) {
  const std::string name = lower(c10::toString(type));
  return type == at::kHalf ? "float16" : type == at::kFloat ? "float32" : name;
}

std::string reason(const Computed& one, PrecisionMode mode) {
  if (!one.why.empty()) return one.why;
  const bool half = one.type == at::kHalf || one.type == at::kBFloat16;
  if (mode == PrecisionMode::kBlocks)
    return half ? "one of the top num_fp16_res" : "below the half-precision blocks";
  return half ? "autocast" : "no --amp";
}

}  // namespace

Json dtype_table(const std::vector<Player*>& players,
                 const std::vector<Computed>& computed,
                 PrecisionMode mode) {
  Json table = Json::array();
  for (const Computed& one : computed) {
    const std::optional<at::ScalarType> type = parameter_type(players, one.block);
    table.push_back({{"block", one.block},
                     {"parameters", type ? name_of(*type) : "-"},
                     {"computes", name_of(one.type)},
                     {"why", reason(one, mode)}});
  }
  return table;
}

void print_dtypes(const Json& table) {
  fmt::print("\n{:<40} {:<12} {:<12} why\n", "block", "parameters", "computes in");
  for (const Json& row : table) {
    fmt::print("{:<40} {:<12} {:<12} {}\n",
               text_of(row["block"]),
               text_of(row["parameters"]),
               text_of(row["computes"]),
               text_of(row["why"]));
  }
}

Json product_table(const std::vector<ProductTimes>& measured, const std::string& choice) {
  const ProductChoice chosen = choice_from(choice).value_or(ProductChoice());
  Json table = Json::array();
  for (const ProductTimes& times : measured) {
    const auto found = chosen.find(times.product);
    const bool lowered = found != chosen.end() && found->second;
    table.push_back({{"product", to_text(times.product)},
                     {"float32", times.float32},
                     {"bfloat16", times.bfloat16},
                     {"computes", lowered ? "bfloat16" : "float32"}});
  }
  return table;
}

void print_products(const Json& report) {
  if (report.contains("amp")) fmt::print("\namp: {}\n", text_of(report["amp"]));
  const Json& table = report["products"];
  if (table.empty()) return;
  fmt::print("\n{:<58} {:>10} {:>11} {:>6}  computes in\n",
             "ms of an iteration",
             "float32",
             "bfloat16",
             "ratio");
  for (const Json& row : table) {
    const auto full = row["float32"].get<double>(), lowered = row["bfloat16"].get<double>();
    fmt::print("{:<58} {:>10.2f} {:>11.2f} {:>6.2f}  {}\n",
               text_of(row["product"]),
               full * 1e3,
               lowered * 1e3,
               lowered / full,
               text_of(row["computes"]));
  }
}

}  // namespace gantrain
