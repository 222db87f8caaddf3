// SPDX-License-Identifier: Apache-2.0
#include "dtype_table.h"

#include <torch/torch.h>

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
    return half ? "one of the top stylegan2.num_fp16_res" : "below the half-precision blocks";
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

}  // namespace gantrain
