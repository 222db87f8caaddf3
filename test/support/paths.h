// SPDX-License-Identifier: Apache-2.0
// Where the checkout, the fixtures and the build stand. Functions, so that only paths.cpp depends
// on these places.
#pragma once

#include <string>

namespace gantrain {

std::string source_folder();    // the checkout
std::string fixtures_folder();  // test/fixtures in it
std::string build_folder();     // where the program under test stands

}  // namespace gantrain
