// SPDX-License-Identifier: Apache-2.0
#include "data/options.h"

#include <set>

#include "support/catch.h"

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
  options.resolution = square_of(resolution);
  return short_name(options);
}

}  // namespace

TEST_CASE("EveryDataOptionIsListedOnce") {
  DataOptions options;
  std::set<std::string> keys;
  fields(options, Collect{keys});
  CHECK(keys == std::set<std::string>{"path",
                                      "resolution",
                                      "size_from",
                                      "channels",
                                      "depth",
                                      "join",
                                      "mirror",
                                      "cond",
                                      "labels",
                                      "unlabelled",
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
  CHECK(name_of("data/cats.tar.gz", 128) == "cats128");
  CHECK(name_of("data/v1.2.tar", 128) == "v1_2-128");
  CHECK(name_of("data/s-{00..11}.tar", 128) == "s-_00__11_128");
  CHECK(name_of("cifar10", 32) == "cifar10-32");
  CHECK(name_of("my cats & dogs") == "my_cats___dogs64");
  DataOptions wide;
  wide.path = "photos";
  wide.resolution = {256, 128};
  CHECK(short_name(wide) == "photos256x128");
}

namespace {

int64_t chosen(const std::string& path, int64_t cores, int64_t ranks, int64_t computing) {
  DataOptions options;
  options.path = path;
  return choose_workers(options, {.cores = cores, .ranks = ranks, .computing = computing});
}

}  // namespace

TEST_CASE("WorkersAreTheCoresThatComputingLeavesToARank") {
  CHECK(chosen("photos", 2, 1, 2) == 1);
  CHECK(chosen("photos", 2, 2, 1) == 1);
  CHECK(chosen("photos", 1, 8, 1) == 1);
  CHECK(chosen("photos", 16, 1, 12) == 4);
  CHECK(chosen("photos", 48, 8, 2) == 4);
  CHECK(chosen("photos", 96, 8, 2) == 8);
  CHECK(chosen("photos", 96, 1, 2) == 8);
}

TEST_CASE("BuiltInPicturesNeedFewWorkers") {
  CHECK(chosen("synth:shapes", 96, 8, 2) == 2);
  CHECK(chosen("synth:shapes", 2, 1, 2) == 1);
}

TEST_CASE("AskedForWorkersAreObeyedAndNotSaid") {
  DataOptions options;
  const LoadingMachine machine{.cores = 4, .ranks = 1, .computing = 2};
  CHECK(workers_text(options, machine) ==
        "auto    data.workers 2: 4 cores, 1 rank here, 2 threads a rank to compute with");
  options.workers = 0;
  CHECK(choose_workers(options, machine) == 0);
  options.workers = 200;
  CHECK(choose_workers(options, machine) == 200);
  CHECK(workers_text(options, machine).empty());
}

}  // namespace gantrain
