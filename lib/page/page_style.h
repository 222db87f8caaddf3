// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gantrain {

// What every page has inline: the style sheet, and the script that moves the slider of a time-lapse
// and shows the values below the pointer.
extern const char* const kPageStyle;
extern const char* const kPageScript;

}  // namespace gantrain
