// SPDX-License-Identifier: Apache-2.0
#include "data/options.h"

#include <catch2/catch.hpp>
#include <set>

namespace gantrain {

namespace {

struct Collect {
  std::set<std::string>& keys;
  template <class T>
  void operator()(const char* name, T&, const char*) {
    keys.insert(name);
  }
  template <class T>
  void operator()(const char* name, T&, const Check&, const char*) {
    keys.insert(name);
  }
};

std::string name_of(const std::string& path, int64_t resolution = 64) {
  DataOptions options;
  options.path = path;
  options.resolution = resolution;
  return short_name(options);
}

}  // namespace

TEST_CASE("EveryDataOptionIsListedOnce") {
  DataOptions options;
  std::set<std::string> keys;
  fields(options, Collect{keys});
  CHECK(keys == std::set<std::string>{"path",
                                      "resolution",
                                      "channels",
                                      "mirror",
                                      "cond",
                                      "workers",
                                      "on_bad",
                                      "verify",
                                      "fit",
                                      "filter",
                                      "scaled_jpeg",
                                      "synth_size",
                                      "cache_mb"});
}

TEST_CASE("ShortNameIsTheLastPartOfThePath") {
  CHECK(name_of("synth:shapes", 32) == "shapes32");
  CHECK(name_of("/home/me/photos") == "photos64");
  CHECK(name_of("/home/me/photos/") == "photos64");
  CHECK(name_of("data/cats.ZIP", 128) == "cats128");
  CHECK(name_of("cifar10", 32) == "cifar10-32");
  CHECK(name_of("my cats & dogs") == "my_cats___dogs64");
}

}  // namespace gantrain
