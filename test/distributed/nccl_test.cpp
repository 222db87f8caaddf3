// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "distributed/backend.h"

using namespace gantrain;

TEST_CASE("TheCudaLibraryLoadsWithoutAGpuAndExportsTheNcclGroup") {
  const std::string path = std::string(GANTRAIN_BUILD) + "/libgantrain_cuda.so";
  if (!std::filesystem::exists(path)) {
    WARN("skipped: this build has no CUDA library");
    return;
  }
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    WARN("skipped: a library of CUDA's is missing here: " << dlerror());
    return;
  }
  CHECK(dlsym(RTLD_DEFAULT, kMakeNccl) != nullptr);
}
