// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace gantrain {

// A network pickle made by write_official_pickle.py (its options: see there) of the fixtures
// sg2_SET32_G and _D, SET being "uncond" or "cond", or of SET_G and _D, SET being
// "sg3_...", "r3gan_..." or "proj_...". False without Python, and says so.
bool write_official_pickle(const std::filesystem::path& out,
                           const std::string& set,
                           const std::string& options = "");

}  // namespace gantrain
