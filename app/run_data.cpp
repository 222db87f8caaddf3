// SPDX-License-Identifier: Apache-2.0
#include "run_data.h"

#include "resolve.h"

namespace gantrain {

std::optional<DataOptions> data_of_run(const std::filesystem::path& model_file,
                                       const std::string& path) {
  const std::filesystem::path config = model_file.parent_path() / "config.json";
  DataOptions options;
  std::error_code error;
  const bool known = std::filesystem::exists(config, error);
  if (known) options = resolve({.config_file = config.string()}, {}).read<DataOptions>("data.");
  if (!known && path.empty()) return std::nullopt;
  if (!path.empty() && path != options.path) {
    options.path = path;
    options.labels = "auto";  // the run's file of labels is about the run's pictures
  }
  return options;
}

}  // namespace gantrain
