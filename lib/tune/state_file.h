// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>

#include "config/schema.h"
#include "util/error.h"
#include "util/file.h"

namespace gantrain {

// The file in which a race or a finetuning says where it stands: a struct with fields(), as JSON.

// Reads it; nothing where there is none. Throws UserError(kInput), with `hint` behind the reason,
// where it is broken.
template <class State>
std::optional<State> read_state_file(const std::filesystem::path& path,
                                     const std::string& hint = "") {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  const Json json = parse_json(read_regular_file(path, kMostOfJson), path.string(), Exit::kInput);
  try {
    return message_from<State>(json);
  } catch (const std::logic_error& e) {
    fail(Exit::kInput, "{}: {}{}", path.string(), e.what(), hint);
  }
}

// Throws UserError(kDisk).
template <class State>
void write_state_file(const std::filesystem::path& path, const State& state) {
  write_file(path, message_of(state).dump(2) + "\n");
}

}  // namespace gantrain
