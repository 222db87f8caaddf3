// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace gantrain {

// Writes the completion scripts of bash, zsh and fish and the manual pages of all commands under
// PREFIX/share, where shells and man look for PREFIX=~/.local and PREFIX=/usr/local. Throws
// UserError(kDisk) with the path that cannot be written.
void install_help(const std::filesystem::path& prefix);

}  // namespace gantrain
