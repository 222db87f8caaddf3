// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "config/value.h"
#include "core/safetensors.h"

namespace gantrain {

// The folder that a projection leaves its files in, with the state from which it goes on after it
// was stopped.
class ProjectionFolder {
 public:
  // `request`: all that the result depends on, as a JSON object. Makes the folder. Throws
  // UserError(kDisk) if it cannot be written to.
  ProjectionFolder(const std::filesystem::path& folder, const Json& request);

  // Returns the state that was saved for the same request; nothing in a new folder. Throws
  // UserError(kUsage) that names what differs where it was another request, and UserError(kInput)
  // where the state is broken.
  std::optional<std::map<std::string, at::Tensor>> load() const;
  // Writes the state, whole or not at all.
  void save(const NamedTensors& state) const;

  std::filesystem::path file(const std::string& name) const { return folder_ / name; }
  std::filesystem::path state_file() const { return folder_ / "project-state.safetensors"; }

 private:
  std::filesystem::path folder_;
  Json request_;
};

}  // namespace gantrain
