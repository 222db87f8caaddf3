// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "command/options.h"

namespace gantrain {

// Reads the command line of a verb whose other flags are those of `gantrain train`: what `options`
// do not know, and what follows "--", comes back as words of the training, in this program's own
// words. Returns nothing where --help was asked for and printed. Throws UserError(kUsage) for flags
// that neither has.
std::optional<std::vector<std::string>> training_words(Options& options,
                                                       const std::vector<std::string>& arguments);

// Takes a flag by any of its names, with its value, out of the words: "--resume PATH" and
// "--resume=PATH".
std::vector<std::string> without_flag(const std::vector<std::string>& words,
                                      const std::vector<std::string>& names);

}  // namespace gantrain
