// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace gantrain {

// Returns a number for people to read: three significant digits, and whole from 100 on, with a
// comma between thousands: "0.0312", "6.83", "41.2", "179", "1,790", "25,000,000".
std::string grouped(double value);

}  // namespace gantrain
