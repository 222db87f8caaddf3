// SPDX-License-Identifier: Apache-2.0
#if __has_include(<catch2/catch_session.hpp>)  // Catch2 3

#include <catch2/catch_session.hpp>

int main(int count, char** arguments) { return Catch::Session().run(count, arguments); }

#else

#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>

#endif
