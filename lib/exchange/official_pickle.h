// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "gan/model_json.h"

namespace gantrain {

// The networks of a snapshot of StyleGAN2-ADA (PyTorch) or of StyleGAN2 in StyleGAN3's repository:
// a pickle of a dict whose G_ema, G and D are classes with their state. Nothing of it is executed,
// the Python source that lies in it is not used. G and D may be missing. Throws UserError(kInput)
// naming `source` and the key, module or tensor: other classes (StyleGAN3's generator among them),
// architectures that gantrain does not have, anything the pickle machine refuses.
ModelContent read_official_pickle(std::string_view content, const std::string& source);

}  // namespace gantrain
