// SPDX-License-Identifier: Apache-2.0
#include "own_values.h"

#include <map>

#include "util/error.h"
#include "util/text.h"

namespace gantrain {

std::string own_metrics(const std::string& value) {
  static const std::map<std::string, std::string> names = {{"fid50k_full", "fid"},
                                                           {"fid50k", "fid"},
                                                           {"kid50k_full", "kid"},
                                                           {"kid50k", "kid"},
                                                           {"pr50k3_full", "pr"},
                                                           {"pr50k3", "pr"},
                                                           {"ppl2_wend", "ppl"},
                                                           {"ppl_wend", "ppl"},
                                                           {"is50k", "is"}};
  std::vector<std::string> all;
  for (const std::string& one : split(value, ',')) {
    const auto at = names.find(trim(one));
    all.push_back(at == names.end() ? one : at->second);
  }
  return join(all, ",");
}

void check_no_pickle(const std::string& flag, const std::string& value) {
  if (!ends_with(lower(value), ".pkl")) return;
  const std::string model = value.substr(0, value.size() - 4) + ".safetensors";
  fail(Exit::kUsage,
       "{} {}: a network pickle holds weights, not the state of a run; gantrain import {} -o {}, "
       "then --init-from {} starts a run at them",
       flag,
       value,
       shell_quote(value),
       shell_quote(model),
       shell_quote(model));
}

}  // namespace gantrain
