// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace gantrain {

// A tar archive in memory. Form: ustar, gnutar or pax; filter: none, gzip, zstd, xz or bzip2.
struct TarForm {
  std::string form = "pax";
  std::string filter = "none";
};
std::string write_tar(const std::vector<std::pair<std::string, std::string>>& entries,
                      const TarForm& form = {});

}  // namespace gantrain
