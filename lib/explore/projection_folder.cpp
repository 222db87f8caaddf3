// SPDX-License-Identifier: Apache-2.0
#include "explore/projection_folder.h"

#include "config/config.h"
#include "core/tensors.h"
#include "util/error.h"
#include "util/file.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {
// Keys of the state's metadata.
constexpr const char* kRequest = "gantrain.project";
constexpr const char* kDigest = "gantrain.sha256";

// SHA-256 of the tensors, in the order of their names.
std::string digest_of(const std::map<std::string, at::Tensor>& tensors) {
  return sha256_of({tensors.begin(), tensors.end()});
}

}  // namespace

ProjectionFolder::ProjectionFolder(const fs::path& folder, const Json& request)
    : folder_(folder), request_(request) {
  make_writable_folder(folder);
}

std::optional<std::map<std::string, at::Tensor>> ProjectionFolder::load() const {
  if (!fs::exists(state_file())) return std::nullopt;
  const std::string name = state_file().string();
  const std::string mend = "give another --outdir, or remove the file to begin again";
  TensorFile file;
  Json before;
  try {
    file = load_safetensors(state_file());
    const auto metadata = file.metadata.find(kRequest);
    if (metadata == file.metadata.end()) fail(Exit::kInput, "{}: no {} in it", name, kRequest);
    before = parse_json(metadata->second, name, Exit::kInput);
    const auto digest = file.metadata.find(kDigest);
    if (digest == file.metadata.end() || digest->second != digest_of(file.tensors))
      fail(Exit::kInput, "{}: its content was changed or damaged", name);
  } catch (const UserError& e) {
    fail(Exit::kInput, "{}; {}", e.what(), mend);
  }
  for (const auto& [key, now] : request_.items()) {
    const Json was = before.is_object() && before.contains(key) ? before[key] : Json();
    if (was == now) continue;
    fail(Exit::kUsage,
         "{}: of another projection ({} was {}, is {}); {}",
         name,
         key,
         text_of(was),
         text_of(now),
         mend);
  }
  return file.tensors;
}

void ProjectionFolder::save(const NamedTensors& state) const {
  const std::string digest = digest_of({state.begin(), state.end()});
  save_safetensors(state_file(), state, {{kRequest, request_.dump()}, {kDigest, digest}});
}

}  // namespace gantrain
