// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace gantrain {

// Returns the value of --metrics with this program's names for StyleGAN's metrics, which say how
// many pictures they take: "fid,kid" for "fid50k_full,kid50k_full". Other names come back as they
// are.
std::string own_metrics(const std::string& value);

// Throws UserError(kUsage) with the commands to type where --resume or --init-from (`flag`) is
// given an official network pickle.
void check_no_pickle(const std::string& flag, const std::string& value);

}  // namespace gantrain
