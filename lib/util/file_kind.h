// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace gantrain {

// Returns what a file is by its first bytes, for a message that refuses it: "a PNG picture", "a web
// page (HTML)"; "" where they do not tell.
std::string file_kind(std::string_view bytes);

// Throws UserError(kUsage) with the command that downloads it where an address of the web was given
// for a file: for one of the Hugging Face Hub (https://huggingface.co/ORG/NAME,
// .../resolve/REVISION/ FILE, hf://ORG/NAME) that of its own program.
void refuse_address(const std::string& given);

// Returns the file of weights in a folder that was downloaded from the Hugging Face Hub: a folder
// of `hf download --local-dir`, a snapshot in its cache, whose files are links into blobs/, or the
// folder of a repository in the cache (models--ORG--NAME), of which refs/main chooses the snapshot.
// It is model.safetensors, or the only .safetensors or .pkl. Throws UserError: kUsage where several
// could be meant, which it names; kInput where there is none, or the download is not complete.
std::filesystem::path weights_of_snapshot(const std::filesystem::path& folder);

}  // namespace gantrain
